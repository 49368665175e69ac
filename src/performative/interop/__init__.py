"""Worlds for users of other libraries; each file needs the extra of its name."""
