"""The cluster's metadata as this broker knows it, and how the broker follows its changes.

In reading order:

* `loader`            fetches committed records of the metadata log and gives the new images to the publishers
* `publishers`        apply the changes of the image on this broker, one after the other
* `cache`             the newest image as the handlers use it
* `kept_topics`       the bytes of large topics in answers, kept until the topic changes
* `config_requests`   which resources of a config change this broker handles, and which the controller does
"""
