/** Splits a request's URL without a URL object: paths are matched exactly as sent. */

export interface RequestTarget {
  /** still percent-encoded; begins with `/` */
  readonly path: string;
  /** after the `?`; undefined without one */
  readonly query: string | undefined;
}

/** The runtime gives an absolute URL, or a bare path if the request had no usable Host. */
export function splitUrl(url: string): RequestTarget {
  const authorityAt = url.startsWith('/') ? 0 : url.indexOf('://') + 3;
  const pathAt = url.indexOf('/', authorityAt);
  if (pathAt < 0) return { path: '/', query: undefined };
  const queryAt = url.indexOf('?', pathAt);
  if (queryAt < 0) return { path: url.slice(pathAt), query: undefined };
  return { path: url.slice(pathAt, queryAt), query: url.slice(queryAt + 1) };
}
