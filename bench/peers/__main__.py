"""`python -m bench.peers` (`make peers-setup`): install the peers that a registry has."""

from bench.peers.install import main

main()
