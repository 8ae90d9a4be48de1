"""What tests share: an engine to talk to, recorded answers, deadlines, ports, processes."""
