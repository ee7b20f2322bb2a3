"""The real sides of the ports in `config/ports.py`: the operating system behind each promise.

In reading order: `clock`, `random_source`, `timers` (one heap over the loop), `offload` (helper threads),
`files`, `stalls` (what threads wait for). Only `broker/node.py` makes them; everybody else is given the
protocol.
"""
