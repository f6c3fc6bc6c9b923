/** An HTTP proxy in front of a server that counts what passes, by operation and by node. */
interface Passed {
  /** `lease`, `upload`, `commit` (of root refs), `metadata`, `content`, `root-refs`, of Bulk `leases`, `reads`, `pack-lease`, `pack-upload`, or another last part of a path */
  readonly kind: string;
  /** of the node; '' where there is none */
  readonly hash: string;
  readonly status: number;
  readonly bytes: number;
}

export interface CountingProxy {
  readonly url: string;
  /** everything since the last `forget` */
  readonly passed: readonly Passed[];
  forget(): void;
  /** Called when a request has come and when its answer is about to go; the proxy waits for it. */
  onRequest: ((kind: string, moment: 'asked' | 'answered') => void | Promise<void>) | undefined;
  offersBulk: boolean;
  /** The server that answers from now on; it may be away. */
  setTarget(url: string): void;
  close(): Promise<void>;
}

/** With `offersBulk` false the server looks like one without Bulk: its answers of 404 are not counted. */
export function startCountingProxy(
  firstTarget: string,
  { offersBulk = false }: { readonly offersBulk?: boolean } = {},
): CountingProxy {
  let target = firstTarget;
  let passed: Passed[] = [];
  /** upload targets name no hash: the lease that gave one does */
  const hashOfUpload = new Map<string, string>();
  const packUploads = new Set<string>();
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 60,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const body = request.method === 'GET' ? undefined : await request.bytes();
      const isOfBulk = pathname.startsWith('/bulk/');
      if (isOfBulk && !proxy.offersBulk) return new Response('no such page', { status: 404 });
      const headers = new Headers(request.headers);
      const isUpload = pathname.startsWith('/uploads/');
      const isPack = packUploads.has(pathname);
      const kind = isPack ? 'pack-upload' : isUpload ? 'upload' : kindOf(request.method, pathname);
      await proxy.onRequest?.(kind, 'asked');
      let answer: Response;
      try {
        answer = await fetch(`${target}${pathname}${search}`, {
          method: request.method,
          headers,
          ...(body === undefined ? {} : { body }),
          redirect: 'manual',
        });
      } catch {
        return new Response('the server is away', { status: 502 });
      }
      const bytes = await answer.bytes();
      const hash = isUpload ? (hashOfUpload.get(pathname) ?? '') : (/[0-9a-f]{64}/.exec(pathname)?.[0] ?? '');
      if (kind === 'leases' && answer.status === 200) {
        const { pack } = JSON.parse(new TextDecoder().decode(bytes)) as { pack?: { url: string } };
        if (pack !== undefined) packUploads.add(new URL(pack.url).pathname);
      }
      if (kind === 'lease' && answer.status === 200) {
        const { upload } = JSON.parse(new TextDecoder().decode(bytes)) as { upload?: { url: string } };
        if (upload !== undefined) hashOfUpload.set(new URL(upload.url).pathname, hash);
      }
      passed.push({
        kind,
        hash,
        status: answer.status,
        bytes: body?.length ?? 0,
      });
      await proxy.onRequest?.(kind, 'answered');
      return new Response(bytes, { status: answer.status, headers: answer.headers });
    },
  });
  const proxy: CountingProxy = {
    url: `http://127.0.0.1:${server.port}`,
    get passed() {
      return passed;
    },
    offersBulk,
    onRequest: undefined,
    forget() {
      passed = [];
    },
    setTarget(url) {
      target = url;
    },
    close: () => server.stop(true),
  };
  return proxy;
}

function kindOf(method: string, path: string): string {
  const operation = path.split('/').at(-1) ?? '';
  if (operation === 'lease' && path.startsWith('/bulk/')) return 'pack-lease';
  return method === 'POST' && operation === 'root-refs' ? 'commit' : operation;
}
