-- Small nodes whose bytes are an object of their own: they go into packs. 65536 is SMALL_NODE_BYTES_MAX.

CREATE INDEX CONCURRENTLY contents_to_pack ON contents (space, generation)
  WHERE pack IS NULL AND inline_bytes IS NULL AND canonical_size <= 65536;
