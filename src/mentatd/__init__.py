"""An OpenAI-compatible router and merged MCP endpoint for a mentat cluster, and its companions."""

__version__ = "0.1.0"
