"""The study's folder, its lock and attempts; which run is next; rows into tables."""
