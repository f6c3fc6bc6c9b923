/** An attack: many callers of one Space store parents of one child, so that all wait for its row. Started by attack.ts. */
import { makeNode } from './canonical-node.ts';
import { makeSpaceClient } from './space-client.ts';

interface Settings {
  readonly url: string;
  readonly appId: string;
  readonly token: string;
  readonly child: string;
  readonly callers: number;
}

const { url, appId, token, child, callers }: Settings = JSON.parse(process.argv[2] ?? '');
const client = makeSpaceClient(url, appId, 'space', token);
let stored = 0;

async function storeForEver(caller: number): Promise<never> {
  for (let count = 0; ; count += 1) {
    const node = makeNode(`parent ${caller} ${count}`, { refs: [child] });
    const first = await client.lease(node.hash);
    if (first.json.upload !== undefined) {
      await (await client.put(first.json.upload, node.bytes)).arrayBuffer();
      const { status } = await client.lease(node.hash);
      if (status === 200) stored += 1;
    }
    console.log(JSON.stringify({ stored }));
  }
}

await Promise.all(Array.from({ length: callers }, (_, caller) => storeForEver(caller)));
