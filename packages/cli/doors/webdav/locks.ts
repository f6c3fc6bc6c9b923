/** The locks of a door, and the memory that they and the dead properties share. */
import { randomUUID } from 'node:crypto';
import { DoorError } from '../door.ts';
import { formatPlace, isWithin } from './places.ts';
import { escapeXml, refusePrecondition } from './xml.ts';

export interface Lock {
  /** at most 52 characters, because litmus 0.13 cuts a longer If */
  readonly token: string;
  readonly key: string;
  readonly isFolder: boolean;
  readonly isDeep: boolean;
  readonly isExclusive: boolean;
  /** XML, as the client gave it */
  readonly owner: string;
  readonly seconds: number;
  readonly endsAt: number;
}

export class DoorMemory {
  #bytes = 0;

  /** False where there is no room; nothing is then counted. */
  tryTake(bytes: number): boolean {
    if (this.#bytes + bytes > 1024 * 1024) return false;
    this.#bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** The place that a request changes. `below`: all below it changes too; `listed`: the list of its folder does. */
export interface Change {
  readonly key: string;
  readonly below?: boolean;
  readonly listed?: boolean;
}

export class Locks {
  readonly #memory: DoorMemory;
  readonly #locks = new Map<string, Lock>();

  constructor(memory: DoorMemory) {
    this.#memory = memory;
  }

  /** Throws DoorError 423, 507. */
  add(wanted: Omit<Lock, 'token' | 'endsAt'>): Lock {
    const others = [...this.covering(wanted.key), ...(wanted.isDeep ? this.#below(wanted.key) : [])];
    const rival = others.find(({ isExclusive }) => isExclusive || wanted.isExclusive);
    if (rival !== undefined) throw locked(rival, 'no-conflicting-lock');
    const token = `opaquelocktoken:${randomUUID()}`;
    const lock = { ...wanted, token, endsAt: Date.now() + wanted.seconds * 1_000 };
    if (!this.#memory.tryTake(sizeOf(lock))) throw new DoorError(507, 'there are too many locks');
    this.#locks.set(token, lock);
    return lock;
  }

  refresh(lock: Lock, seconds: number): Lock {
    const again = { ...lock, seconds, endsAt: Date.now() + seconds * 1_000 };
    this.#locks.set(lock.token, again);
    return again;
  }

  remove({ token }: Lock): void {
    const lock = this.#locks.get(token);
    if (lock !== undefined && this.#locks.delete(token)) this.#memory.give(sizeOf(lock));
  }

  /** Drops the locks of a place that was removed. */
  forget(key: string): void {
    for (const lock of this.#standing()) if (isWithin(lock.key, key)) this.remove(lock);
  }

  covering(key: string): readonly Lock[] {
    return this.#standing().filter((lock) => lock.key === key || (lock.isDeep && isWithin(key, lock.key)));
  }

  #below(key: string): readonly Lock[] {
    return this.#standing().filter((lock) => lock.key !== key && isWithin(lock.key, key));
  }

  #standing(): readonly Lock[] {
    const now = Date.now();
    for (const lock of [...this.#locks.values()]) if (lock.endsAt <= now) this.remove(lock);
    return [...this.#locks.values()];
  }

  /** Throws DoorError 423 unless a token of each lock in the way was given. */
  require(changes: readonly Change[], tokens: ReadonlySet<string>): void {
    for (const { key, below, listed } of changes) {
      const keys = new Set([key, ...(below ? this.#below(key).map((lock) => lock.key) : [])]);
      if (listed) keys.add(key.split('/').slice(0, -1).join('/'));
      for (const each of keys) {
        const locks = this.covering(each);
        const [first] = locks;
        if (first !== undefined && !locks.some(({ token }) => tokens.has(token)))
          throw locked(first, 'lock-token-submitted');
      }
    }
  }
}

function sizeOf({ key, owner }: Lock): number {
  return 256 + 2 * (key.length + owner.length); // bytes of memory
}

function locked({ key, isFolder }: Lock, condition: string): DoorError {
  return refusePrecondition(423, condition, hrefOf(key, isFolder));
}

function hrefOf(key: string, isFolder: boolean): string {
  return `<D:href>${escapeXml(formatPlace(key === '' ? [] : key.split('/'), isFolder))}</D:href>`;
}

export const SUPPORTED_LOCKS = ['exclusive', 'shared']
  .map(
    (scope) =>
      `<D:lockentry><D:lockscope><D:${scope}/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>`,
  )
  .join('');

export function formatLocks(locks: readonly Lock[]): string {
  return locks
    .map(
      ({ token, key, isFolder, isDeep, isExclusive, owner, seconds }) =>
        `<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:${isExclusive ? 'exclusive' : 'shared'}/></D:lockscope>` +
        `<D:depth>${isDeep ? 'infinity' : '0'}</D:depth>${owner}<D:timeout>Second-${seconds}</D:timeout>` +
        `<D:locktoken><D:href>${token}</D:href></D:locktoken><D:lockroot>${hrefOf(key, isFolder)}</D:lockroot></D:activelock>`,
    )
    .join('');
}
