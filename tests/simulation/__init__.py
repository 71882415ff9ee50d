"""Simulations of nodes, disks, network and time. Every run is reproducible from its seed."""
