// What the browser test runs in the page: the built SDK alone pushes a tree, reads it back verified, and meets damage. It
// reports to the page's own server; a thrown error is a report too.
import {
  buildFile,
  buildSymlink,
  createClient,
  createNodeSource,
  DirectoryBuilder,
  getFile,
  MemoryTree,
  openTree,
  pushTree,
  putFile,
} from '@holdfast/client';
import { roundTripFolder } from './browser-folder.mjs';

const encode = (text) => new TextEncoder().encode(text);

/** The same bytes as the test makes. */
function noise(seed, length) {
  const words = new Int32Array(length / 4);
  let x = seed;
  for (let index = 0; index < words.length; index += 1) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[index] = x;
  }
  return new Uint8Array(words.buffer);
}

async function build(tree, { largeBytes, entryCount }) {
  const entry = (name, kind, built, isExecutable = false) => ({
    name,
    kind,
    entryCount: 0,
    ...built,
    isExecutable,
    mtimeNs: undefined,
  });
  const wide = new DirectoryBuilder(tree);
  for (let index = 0; index < entryCount; index += 1) {
    const built = await buildFile(tree, [encode(`file ${index}`)]);
    await wide.add(entry(encode(`entry-${String(index).padStart(5, '0')}`), 'file', built));
  }
  const root = new DirectoryBuilder(tree);
  const large = new Blob([noise(7, largeBytes)]).stream();
  await root.add(entry(encode('large'), 'file', await buildFile(tree, large), true));
  await root.add(entry(encode('link'), 'symlink', await buildSymlink(tree, encode('large'))));
  await root.add(entry(encode('wide'), 'directory', await wide.finish()));
  await root.add(entry(Uint8Array.of(0xff, 0xfe), 'file', await buildFile(tree, [])));
  return root.finish();
}

async function readBack(client, root, { largeBytes, entryCount }) {
  const tree = openTree(createNodeSource(client));
  const large = await tree.resolvePath(root, [encode('large')]);
  const expected = noise(7, largeBytes);
  let offset = 0;
  for await (const piece of tree.readFile(large)) {
    for (let at = 0; at < piece.length; at += 1) {
      if (piece[at] !== expected[offset + at]) throw new Error(`byte ${offset + at} is wrong`);
    }
    offset += piece.length;
  }
  const wide = await tree.resolvePath(root, [encode('wide')]);
  let entries = 0;
  for await (const _ of tree.readDirectory(wide)) entries += 1;
  if (entries !== entryCount) throw new Error(`${entries} entries came back`);
  const link = await tree.resolvePath(root, [encode('link')]);
  return {
    readBytes: offset,
    isExecutable: large.isExecutable,
    linkTarget: new TextDecoder().decode(await tree.readSymlink(link)),
  };
}

/** As if something between server and page changed one bit of the content. */
async function damage(url, init) {
  const response = await fetch(url, init);
  if (!url.endsWith('/content')) return response;
  const bytes = new Uint8Array(await response.arrayBuffer());
  bytes[bytes.length - 1] ^= 1;
  return new Response(bytes, { status: response.status, headers: response.headers });
}

/** A file as a page has it, stored and read back. */
async function roundTripFile(client, { largeBytes }) {
  const phases = new Set();
  const file = new File([noise(7, largeBytes)], 'large.bin');
  const onProgress = ({ phase }) => phases.add(phase);
  const { hash, bytes } = await putFile(client, file, { onProgress });
  const stored = await getFile(client, hash);
  const read = await new Response(stored.body).blob();
  return { fileHash: hash, fileBytes: [bytes, stored.bytes, read.size], filePhases: [...phases] };
}

/** `longestMs`: for how long the page's thread did nothing else, at most, while `work` ran. A busy machine makes it longer. */
const stillness = { longestMs: 0 };
async function watch(work) {
  let isOver = false;
  let lastAt = performance.now();
  const look = () => {
    const now = performance.now();
    stillness.longestMs = Math.max(stillness.longestMs, now - lastAt);
    lastAt = now;
    if (!isOver) setTimeout(look);
  };
  look();
  try {
    return await work();
  } finally {
    isOver = true;
  }
}

async function run() {
  const { connection, listed, ...shape } = await (await fetch('/config.json')).json();
  let requests = 0;
  const uploadBodies = new Set();
  const counting = (url, init) => {
    requests += 1;
    if (init.method !== 'PUT') return fetch(url, init);
    uploadBodies.add(Object.prototype.toString.call(init.body));
    return watch(() => fetch(url, init));
  };
  const client = createClient({ ...connection, retry: { attemptsMax: 1 }, fetch: counting });
  const tree = new MemoryTree();
  const { hash: root } = await build(tree, shape);
  const first = await pushTree(client, tree.supply(root));
  requests = 0;
  const second = await pushTree(client, tree.supply(root));
  const again = { requests, uploadedNodes: second.uploadedNodes };
  const read = await readBack(client, root, shape);
  const damaged = openTree(createNodeSource(createClient({ ...connection, fetch: damage })));
  const damageCode = await damaged.readItem(root).then(
    () => 'none',
    (error) => error.code,
  );
  return {
    root,
    uploadedNodes: first.uploadedNodes,
    again,
    ...read,
    damageCode,
    uploadBodies: [...uploadBodies],
    ...(await roundTripFile(client, shape)),
    longestStillMs: Math.round(stillness.longestMs),
    ...(await roundTripFolder(createClient(connection), listed)),
    isSecureContext: globalThis.isSecureContext,
    hasWebCrypto: globalThis.crypto?.subtle !== undefined,
  };
}

const report = await run().catch((error) => ({ failure: `${error.name}: ${error.message}\n${error.stack}` }));
await fetch('/report', { method: 'POST', body: JSON.stringify(report) });
