"""What one forwarded request and one streamed chunk cost (`make bench`)."""
