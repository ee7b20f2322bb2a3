"""The admin port: what a scraper, a load balancer and an operator with curl want to know, over HTTP.

In reading order:

* `health`  is the process well, is it ready: who says so
* `pages`   which path gives what
* `http`    as much of HTTP as that takes, with everything bounded

It changes nothing and asks nobody's name, so it listens on the loopback address unless it is told otherwise.
"""
