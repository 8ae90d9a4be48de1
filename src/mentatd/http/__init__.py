"""HTTP/1.1 over asyncio Protocols on llhttp; knows nothing of mentat."""
