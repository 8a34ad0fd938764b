"""One model beyond memory (`chunked`, on the data in `pieces`) and beyond one machine (`cluster`)."""
