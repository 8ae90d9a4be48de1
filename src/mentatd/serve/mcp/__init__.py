"""The merged MCP endpoint: every group's management MCP as one server (manual "The MCP merge")."""
