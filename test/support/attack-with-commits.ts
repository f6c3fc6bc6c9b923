/** An attack: commits of many deltas on many connections, back to back. Started by attack.ts. */

interface Settings {
  readonly rootRefsUrl: string;
  readonly token: string;
  readonly hashes: readonly string[];
  readonly connections: number;
}

const { rootRefsUrl, token, hashes, connections }: Settings = JSON.parse(process.argv[2] ?? '');
const changes = JSON.stringify(Object.fromEntries(hashes.map((hash) => [hash, 1])));
const statuses = new Map<number, number>();

async function commit(requestId: string): Promise<void> {
  const response = await fetch(rootRefsUrl, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: `{"requestId":"${requestId}","changes":${changes}}`,
  });
  await response.arrayBuffer();
  statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
  console.log(JSON.stringify(Object.fromEntries(statuses)));
}

async function commitForEver(connection: number): Promise<never> {
  for (let count = 0; ; count += 1) await commit(`${process.pid}-${connection}-${count}`);
}

await Promise.all(Array.from({ length: connections }, (_, connection) => commitForEver(connection)));

export {};
