"""What a failure costs: work against state size, previews and delay in the simulator."""
