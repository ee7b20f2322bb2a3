"""What happens here when the cluster's image changes: each publisher turns a difference into local action.

The metadata loader calls them in a fixed order, on the loop, with the new image and what changed in it; one
is done before the next begins, and the next image comes only after the last.

In reading order:

* `publisher`   what a publisher is, and the first one, which gives the image to the metadata cache
* `configs`     applies the dynamic configs of this broker and of all brokers
* `replicas`    creates, leads, follows and drops partitions here, and applies topics' configs; partitions of
  deleted topics are let go before the metadata cache shows the image
* `directories` tells the controller in which log directory each replica lies

Imported by the composition root; they call ports and know no network.
"""
