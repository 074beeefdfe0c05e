"""Programs with several replicas in one process: TensorFlow divides a processor only once, so each is a process."""
