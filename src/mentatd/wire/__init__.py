"""What travels between machines: pure translations between bytes or JSON and typed values."""
