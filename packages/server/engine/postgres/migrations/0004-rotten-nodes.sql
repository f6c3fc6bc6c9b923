-- Every process looks every few seconds which Spaces have rotten nodes: that costs nothing where there are none.

CREATE INDEX CONCURRENTLY nodes_rotten ON nodes (space) WHERE state = 2;
