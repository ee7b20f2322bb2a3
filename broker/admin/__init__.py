"""The admin port: what a scraper, a load balancer and an operator with curl want to know, over HTTP.

In reading order:

* `health`  whether the process is well, and whether it is ready for clients
* `pages`   the pages that there are, by path
* `http`    as much of HTTP as that takes, with bounds on everything

It changes nothing and does not authenticate, so it listens on the loopback address unless told otherwise.
"""
