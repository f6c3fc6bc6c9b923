// A folder of the disk in a page: its files come from the page's own server, and go to the Space and back by the built SDK.
import {
  buildFile,
  buildSymlink,
  createPatientSource,
  DirectoryBuilder,
  formatPath,
  MemoryTree,
  openTree,
  pushTree,
  verifyTree,
  walkTree,
} from '@holdfast/client';

const encode = (text) => new TextEncoder().encode(text);
const read = async (path) =>
  new Uint8Array(await (await fetch(`/folder/${encodeURIComponent(path)}`)).arrayBuffer());

/** `listed`: entries in the order of their names. */
async function buildDirectory(sink, listed) {
  const directory = new DirectoryBuilder(sink);
  for (const { name, kind, path, target, entries, isExecutable } of listed) {
    const built =
      kind === 'directory'
        ? await buildDirectory(sink, entries)
        : kind === 'symlink'
          ? await buildSymlink(sink, encode(target))
          : await buildFile(sink, [await read(path)]);
    await directory.add({
      name: encode(name),
      kind,
      entryCount: 0,
      ...built,
      isExecutable,
      mtimeNs: undefined,
    });
  }
  return directory.finish();
}

/** What `listed` says of files, links and folders, by path. */
function flatten(listed, all = new Map()) {
  for (const entry of listed) {
    all.set(entry.path, entry);
    if (entry.kind === 'directory') flatten(entry.entries, all);
  }
  return all;
}

/** Throws at the first entry that did not come back as it was. */
async function expectSame(source, root, listed) {
  const reader = openTree(source);
  const left = flatten(listed);
  for await (const event of walkTree(source, root)) {
    if (event.type !== 'entry') continue;
    const path = formatPath(event.path);
    const expected = left.get(path);
    const { kind, isExecutable } = event.entry;
    if (expected?.kind !== kind || expected.isExecutable !== isExecutable)
      throw new Error(`${path} is a ${kind}`);
    if (kind === 'file') {
      const found = new Uint8Array(
        await new Blob(await Array.fromAsync(reader.readFile(event.entry))).arrayBuffer(),
      );
      const bytes = await read(path);
      if (found.length !== bytes.length || found.some((byte, at) => byte !== bytes[at]))
        throw new Error(`${path} differs`);
    }
    if (kind === 'symlink') {
      const target = new TextDecoder().decode(await reader.readSymlink(event.entry));
      if (target !== expected.target) throw new Error(`${path} leads to ${target}`);
    }
    left.delete(path);
  }
  if (left.size > 0) throw new Error(`${left.size} entries are missing`);
}

/** Pushes the folder, reads all of it back and compares; its root hash. */
export async function roundTripFolder(client, listed) {
  const tree = new MemoryTree();
  const root = await buildDirectory(tree, listed);
  await pushTree(client, tree.supply(root.hash));
  const source = createPatientSource(client);
  await expectSame(source, root, listed);
  const { faults } = await verifyTree(createPatientSource(client), root.hash);
  return { folderRoot: root.hash, folderFaults: faults };
}
