"""Programs that start one of Keras's engines, which a process can have only one of."""
