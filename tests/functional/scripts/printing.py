"""A script without the hook: connects as torchrun's variables say, and prints what it measures."""

import json
import os
import socket
import sys
from pathlib import Path

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
places = [[rank, *(int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"))]]
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        for _ in range(size - 1):
            connection, _ = server.accept()
            with connection, connection.makefile() as file:
                places.append(json.loads(file.readline()))
else:
    while True:
        try:
            connection = socket.create_connection(address, timeout=20)
            break
        except ConnectionRefusedError:
            continue
    with connection:
        connection.sendall(json.dumps(places[0]).encode() + b"\n")

print("total images/sec: 10.0", flush=True)
print(f"total images/sec: {100 * size}.5", flush=True)
print("accuracy: 93.5%", flush=True)
if rank == 0:
    content = {"eval": {"perplexity": 12.5}, "places": sorted(places), "tf_config": os.environ.get("TF_CONFIG")}
    Path("results.json").write_text(json.dumps(content))
how = sys.argv[1] if len(sys.argv) > 1 else ""
if how == "raise" and rank == size - 1:
    raise ValueError("mine")
if how == "signal" and rank == size - 1:
    os.kill(os.getpid(), 11)
