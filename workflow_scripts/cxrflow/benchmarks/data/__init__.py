"""What the data themselves hold: report labels against given ones, statistics."""
