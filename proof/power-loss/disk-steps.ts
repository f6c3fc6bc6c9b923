/** What the traced processes did to the disk below one folder, as steps on files and folders rather than on paths. */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { type Call, decode } from './trace.ts';

/** A file, a link or a folder, under whatever names. */
export interface Inode {
  readonly id: number;
  readonly kind: 'file' | 'folder' | 'link';
  /** the first path it had below the root; '' is the root */
  readonly path: string;
  /** what it holds before the first step, durably */
  readonly initial: Buffer;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

export type Step = Span &
  (
    | { readonly kind: 'write'; readonly inode: Inode; readonly offset: number; readonly bytes: Buffer }
    | { readonly kind: 'size'; readonly inode: Inode; readonly size: number }
    /** `group`: steps of one rename */
    | {
        readonly kind: 'name';
        readonly folder: Inode;
        readonly name: string;
        readonly target: Inode | undefined;
        readonly group: number;
      }
    | { readonly kind: 'sync'; readonly inode: Inode }
    /** what left by a socket whose request had this header, and the end of a process */
    | { readonly kind: 'answer'; readonly id: string }
    | { readonly kind: 'exit'; readonly process: number; readonly code: number }
  );

interface Open {
  readonly inode: Inode;
  position: number;
  readonly isAppended: boolean;
}

/** A request names itself, so that its answer can be found. */
export const REQUEST_HEADER = 'x-proof-request';
const NAMED = new RegExp(`^${REQUEST_HEADER}: (\\S+)`, 'im');
const NO_BYTES: Buffer = Buffer.alloc(0);
const FD = /^(-?\d+|AT_FDCWD)(?:<([^>]*)>)?/;

export class DiskSteps {
  readonly steps: Step[] = [];
  readonly root: Inode;
  readonly #rootPath: string;
  /** the entries of folders now */
  readonly #entries = new Map<Inode, Map<string, Inode>>();
  readonly #open = new Map<string, Open>();
  /** by socket: the request that it received */
  readonly #requests = new Map<string, string>();
  #inodes = 0;
  #groups = 0;

  /** What stands in the folder is durable: it was there before all lines of a trace. */
  constructor(rootPath: string) {
    this.#rootPath = rootPath;
    this.root = this.#make('folder', '');
    this.#readInitial(this.root, rootPath);
    for (const [folder, entries] of this.#entries)
      for (const [name, target] of entries)
        this.#push({ start: -1, end: -1 }, { kind: 'name', folder, name, target, group: this.#nextGroup() });
  }

  /** the entries now */
  entriesOf(folder: Inode): ReadonlyMap<string, Inode> {
    return this.#entries.get(folder) ?? new Map();
  }

  #readInitial(folder: Inode, path: string): void {
    for (const name of readdirSync(path)) {
      const [each, stat] = [join(path, name), lstatSync(join(path, name))];
      const inner = join(folder.path, name);
      if (stat.isDirectory()) {
        const made = this.#make('folder', inner);
        this.#entries.get(folder)?.set(name, made);
        this.#readInitial(made, each);
      } else if (stat.isFile()) {
        this.#entries.get(folder)?.set(name, this.#make('file', inner, readFileSync(each)));
      } else if (stat.isSymbolicLink()) {
        this.#entries.get(folder)?.set(name, this.#make('link', inner, Buffer.from(readlinkSync(each))));
      }
    }
  }

  #make(kind: Inode['kind'], path: string, initial = NO_BYTES): Inode {
    this.#inodes += 1;
    const inode = { id: this.#inodes, kind, path, initial };
    if (kind === 'folder') this.#entries.set(inode, new Map());
    return inode;
  }

  /** Of processes that ran one after another, in that order. */
  add(calls: readonly Call[]): void {
    this.#open.clear();
    // A descriptor that is being closed may have been given to another file before the trace tells of the end of that.
    const orderOf = ({ name, start, end }: Call): number => (name === 'close' ? start : end);
    for (const call of [...calls].sort((a, b) => orderOf(a) - orderOf(b))) this.#addCall(call);
  }

  #addCall(call: Call): void {
    const { name } = call;
    if (name === 'exit_group')
      this.#push(call, { kind: 'exit', process: call.process, code: Number(call.args) });
    else if (Number.isNaN(call.result) && !name.startsWith('send') && !this.#isDone(call)) return;
    else if (/^open|^creat/.test(name)) this.#opened(call);
    else if (/^mkdir|^symlink/.test(name)) this.#made(call);
    else if (name.startsWith('rename')) this.#renamed(call);
    else if (name.startsWith('link')) this.#linked(call);
    else if (/^unlink|^rmdir/.test(name)) this.#removed(call);
    else this.#onDescriptor(call);
  }

  /** Whether a call that the process did not live to see took effect: the disk tells, which nobody has changed since. */
  #isDone({ name, args, process }: Call): boolean {
    const paths = this.#paths({ args, process });
    const stands = (path = ''): boolean =>
      lstatSync(join(this.#rootPath, path), { throwIfNoEntry: false }) !== undefined;
    if (/^(?:open|creat|mkdir|symlink|link|rename|unlink|rmdir)/.test(name)) {
      if (paths[0] === undefined) return false;
      if (/^unlink|^rmdir|^rename/.test(name)) return !stands(paths[0]);
      return stands(paths.at(-1)) && this.#find(paths.at(-1) ?? '').inode === undefined;
    }
    const open = this.#open.get(`${process}:${FD.exec(args)?.[1]}`);
    if (open === undefined || name.endsWith('sync')) return false;
    const real = join(this.#rootPath, open.inode.path);
    if (name === 'ftruncate')
      return stands(open.inode.path) && lstatSync(real).size === Number(args.split(', ')[1]);
    if (!/write/.test(name)) return false;
    return this.#reached(open, this.#offsetOf({ name, args }, open), this.#pieces(args)).length > 0;
  }

  /** What of a write that was cut off is on the disk: a kill ends a long one between two pages. */
  #reached({ inode }: Open, offset: number, bytes: Buffer): Buffer {
    const path = join(this.#rootPath, this.#pathOf(inode) ?? inode.path);
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile() !== true) return NO_BYTES;
    const real = readFileSync(path).subarray(offset, offset + bytes.length);
    const differs = bytes.findIndex((byte, index) => byte !== real[index]);
    return differs < 0 ? bytes : bytes.subarray(0, differs);
  }

  #offsetOf({ name, args }: Pick<Call, 'name' | 'args'>, open: Open): number {
    if (!name.startsWith('p')) return open.position;
    return Number(args.split(', ').at(name === 'pwritev2' ? -2 : -1));
  }

  #pieces(args: string): Buffer {
    return Buffer.concat(
      [...args.matchAll(/(?:, |iov_base=)"([^"]*)"/g)].map(([, text = '']) => decode(text)),
    );
  }

  // biome-ignore lint/suspicious/noExplicitAny: the union of steps without its span
  #push({ start, end }: Span, step: any): void {
    this.steps.push({ ...step, start, end });
  }

  /** The path below the root; undefined: elsewhere. Of the n-th path among the arguments, with the descriptor before it, if any. */
  #paths(call: Pick<Call, 'args' | 'process'>): (string | undefined)[] {
    const found: (string | undefined)[] = [];
    let base = '/';
    for (const arg of call.args.split(', ')) {
      const fd = FD.exec(arg);
      if (arg.startsWith('"')) {
        found.push(this.#below(base, decode(arg.slice(1, arg.lastIndexOf('"'))).toString(), call.process));
      } else if (fd?.[2] !== undefined) base = decode(fd[2]).toString();
    }
    return found;
  }

  #below(base: string, path: string, process: number): string | undefined {
    const through = /^\/proc\/self\/fd\/(\d+)(.*)$/.exec(path);
    if (through !== null) {
      const held = this.#open.get(`${process}:${through[1]}`);
      const path = held && this.#pathOf(held.inode);
      if (path === undefined) return undefined;
      return normalize(`${path}${through[2]}`).replace(/^\/|\/$/g, '');
    }
    const whole = normalize(path.startsWith('/') ? path : join(base, path)).replace(/(?!^)\/$/, '');
    if (whole === this.#rootPath) return '';
    return whole.startsWith(`${this.#rootPath}/`) ? whole.slice(this.#rootPath.length + 1) : undefined;
  }

  /** where a file or folder stands now */
  #pathOf(wanted: Inode, from = this.root, path = ''): string | undefined {
    if (wanted === from) return path === '' ? '.' : path;
    for (const [name, inode] of this.entriesOf(from)) {
      const found = this.#pathOf(wanted, inode, join(path, name));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #find(path: string): { readonly folder: Inode; readonly name: string; readonly inode: Inode | undefined } {
    const parts = path.split('/').filter((part) => part !== '.' && part !== '');
    const name = parts.pop() ?? '';
    let folder = this.root;
    for (const part of parts) {
      const next = this.entriesOf(folder).get(part);
      if (next?.kind !== 'folder') throw new Error(`the trace names ${path}, whose folders are not known`);
      folder = next;
    }
    return { folder, name, inode: name === '' ? folder : this.entriesOf(folder).get(name) };
  }

  #setName(span: Span, path: string, target: Inode | undefined, group = this.#nextGroup()): void {
    const { folder, name } = this.#find(path);
    if (target === undefined) this.#entries.get(folder)?.delete(name);
    else this.#entries.get(folder)?.set(name, target);
    this.#push(span, { kind: 'name', folder, name, target, group });
  }

  #nextGroup(): number {
    this.#groups += 1;
    return this.#groups;
  }

  #opened(call: Call): void {
    const key = `${call.process}:${call.result}`;
    this.#open.delete(key);
    const shown = call.resultPath === undefined ? undefined : this.#below('/', call.resultPath, call.process);
    const [named] = this.#paths(call);
    const path = named ?? shown;
    if (path === undefined) return;
    const isUnnamed = call.args.includes('O_TMPFILE');
    let { inode } = this.#find(path);
    if (isUnnamed) inode = this.#make('file', `${path}/unnamed`);
    else if (inode === undefined) {
      if (!call.args.includes('O_CREAT') && call.name !== 'creat')
        throw new Error(`the trace opens ${path}, which nobody made`);
      inode = this.#make('file', path);
      this.#setName(call, path, inode);
    } else if (call.args.includes('O_TRUNC')) this.#push(call, { kind: 'size', inode, size: 0 });
    this.#open.set(key, { inode, position: 0, isAppended: call.args.includes('O_APPEND') });
  }

  #made(call: Call): void {
    const path = this.#paths(call).at(-1);
    if (path === undefined) return;
    const isLink = call.name.startsWith('symlink');
    const held = isLink ? decode(call.args.slice(1, call.args.indexOf('"', 1))) : NO_BYTES;
    this.#setName(call, path, this.#make(isLink ? 'link' : 'folder', path, held));
  }

  #renamed(call: Call): void {
    const [from, to] = this.#paths(call);
    if (from === undefined || to === undefined) return;
    const { inode } = this.#find(from);
    const group = this.#nextGroup();
    this.#setName(call, from, undefined, group);
    this.#setName(call, to, inode, group);
  }

  #linked(call: Call): void {
    const [from, to] = this.#paths(call);
    if (to === undefined) return;
    const descriptor = from === undefined ? undefined : this.#find(from).inode;
    if (descriptor === undefined) throw new Error(`the trace links ${call.args.slice(0, 200)}`);
    this.#setName(call, to, descriptor);
  }

  #removed(call: Call): void {
    const [path] = this.#paths(call);
    if (path !== undefined) this.#setName(call, path, undefined);
  }

  #onDescriptor(call: Call): void {
    const args = call.args.split(', ');
    const fd = FD.exec(args[0] ?? '');
    const key = `${call.process}:${fd?.[1]}`;
    const open = this.#open.get(key);
    const { name } = call;
    if (name === 'close') this.#open.delete(key);
    else if (name.startsWith('dup') && open !== undefined)
      this.#open.set(`${call.process}:${call.result}`, open);
    else if (name === 'recvfrom' || name.startsWith('send')) this.#exchanged(call, fd?.[2] ?? '');
    else if (name === 'copy_file_range') this.#copied(call, args);
    else if (open === undefined) return;
    else if (name === 'lseek') open.position = call.result;
    else if (name.startsWith('f') && name.endsWith('sync'))
      this.#push(call, { kind: 'sync', inode: open.inode });
    else if (name === 'ftruncate')
      this.#push(call, { kind: 'size', inode: open.inode, size: Number(args[1]) });
    else if (/write/.test(name)) this.#written(call, open);
  }

  /** Each request has a connection of its own. */
  #exchanged(call: Call, socket: string): void {
    if (call.name === 'recvfrom') {
      const head = decode(/"([^"]*)"/.exec(call.args)?.[1] ?? '').toString('latin1');
      const id = NAMED.exec(head)?.[1];
      if (id !== undefined) this.#requests.set(socket, id);
      return;
    }
    const id = this.#requests.get(socket);
    this.#requests.delete(socket);
    if (id !== undefined) this.#push(call, { kind: 'answer', id });
  }

  #written(call: Call, open: Open): void {
    const all = this.#pieces(call.args);
    const offset = this.#offsetOf(call, open);
    const isCutOff = Number.isNaN(call.result);
    const bytes = isCutOff ? this.#reached(open, offset, all) : all.subarray(0, call.result);
    if (!isCutOff && bytes.length !== call.result)
      throw new Error(`the trace has ${bytes.length} of ${call.result} bytes`);
    if (open.isAppended) throw new Error('the trace appends, whose place is not known');
    if (!call.name.startsWith('p')) open.position += bytes.length;
    this.#push(call, { kind: 'write', inode: open.inode, offset, bytes });
  }

  /** From a file that nobody changes afterwards. */
  #copied(call: Call, args: readonly string[]): void {
    const [source, target] = [args[0], args[2]].map((arg) => FD.exec(arg ?? ''));
    const open = this.#open.get(`${call.process}:${target?.[1]}`);
    if (open === undefined) return;
    const [from, to] = [args[1], args[3]].map((arg) => Number(arg?.replaceAll(/[[\]]/g, '')));
    if (source?.[2] === undefined || Number.isNaN(from) || Number.isNaN(to))
      throw new Error(`unknown: ${call.args}`);
    const bytes = readFileSync(decode(source[2]).toString()).subarray(from, Number(from) + call.result);
    this.#push(call, { kind: 'write', inode: open.inode, offset: to, bytes });
  }
}
