"""The router: asyncio shells and their wiring."""
