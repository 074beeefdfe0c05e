"""Where the launcher is started, one file each: `direct` starts it here and now."""
