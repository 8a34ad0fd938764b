"""One model beyond memory (`chunked`) and beyond one machine (`cluster`)."""
