"""Every file name, every column with its unit and meaning; what travels between launch and worker; readers, writers."""
