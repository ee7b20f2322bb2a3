"""The cluster's metadata as this broker knows it, and what changes here when it changes.

In reading order:

* `loader`            makes images out of committed records of the metadata log, and tells publishers of them
* `publishers/`       turn the difference between two images into local action
* `cache`             what handlers ask of the newest image
* `config_requests`   changes of configs: which resource goes to the controller, and which is this broker's
"""
