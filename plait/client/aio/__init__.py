"""The asynchronous client, a module for each group of methods. `plait.client.sync` is made from `plait.client.aio`."""
