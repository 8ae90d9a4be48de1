"""What the router shows of itself: the status page's documents, its event stream, and Prometheus' counters.

Everything here reads what the rest keeps anyway. Of the request path it knows only the observer of ended requests;
nothing runs for each chunk.
"""
