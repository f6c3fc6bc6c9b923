/** A folder that was dragged in or chosen, as names and files. A browser tells neither modes nor links. */

export interface GivenFolder {
  readonly name: string;
  readonly entries: ReadonlyMap<string, GivenFolder | File>;
}

interface OpenFolder {
  readonly name: string;
  readonly entries: Map<string, OpenFolder | File>;
}

/** Reads `<input webkitdirectory>`: files with their paths. A folder without files is not among them. */
export function folderOfFiles(files: Iterable<File>): GivenFolder | undefined {
  let root: OpenFolder | undefined;
  for (const file of files) {
    const [top = file.name, ...names] = file.webkitRelativePath.split('/');
    root ??= { name: top, entries: new Map() };
    let folder = root;
    for (const name of names.slice(0, -1)) folder = openBelow(folder, name);
    const last = names.at(-1);
    if (last !== undefined) folder.entries.set(last, file);
  }
  return root;
}

function openBelow(folder: OpenFolder, name: string): OpenFolder {
  const there = folder.entries.get(name);
  if (there !== undefined && !(there instanceof File)) return there;
  const made: OpenFolder = { name, entries: new Map() };
  folder.entries.set(name, made);
  return made;
}

/** Reads a drop. Several files or folders become one folder. Must be called while the drop is handled. */
export async function folderOfDrop(items: DataTransferItemList): Promise<GivenFolder | undefined> {
  const given = Array.from(items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const [only] = given;
  if (only === undefined) return undefined;
  if (given.length === 1 && only.isDirectory) return readFolder(only as FileSystemDirectoryEntry);
  const entries = await Promise.all(
    given.map(async (entry) => [entry.name, await readEntry(entry)] as const),
  );
  return { name: 'dropped', entries: new Map(entries) };
}

async function readEntry(entry: FileSystemEntry): Promise<GivenFolder | File> {
  if (entry.isDirectory) return readFolder(entry as FileSystemDirectoryEntry);
  return new Promise((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
}

async function readFolder(directory: FileSystemDirectoryEntry): Promise<GivenFolder> {
  const reader = directory.createReader();
  const entries = new Map<string, GivenFolder | File>();
  for (;;) {
    // A browser gives a hundred at a time, and none when that was all.
    const bunch = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (bunch.length === 0) return { name: directory.name, entries };
    for (const entry of bunch) entries.set(entry.name, await readEntry(entry));
  }
}

export function measureFolder(folder: GivenFolder): { readonly files: number; readonly bytes: number } {
  let files = 0;
  let bytes = 0;
  for (const entry of folder.entries.values()) {
    const below = entry instanceof File ? { files: 1, bytes: entry.size } : measureFolder(entry);
    files += below.files;
    bytes += below.bytes;
  }
  return { files, bytes };
}
