"""The status page: static files, which `mentatd.serve.pagefiles` serves (docs/status-page.md)."""
