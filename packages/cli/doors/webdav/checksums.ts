/** ownCloud's checksums: the SHA-1 of files that came by its clients, known by their hash while the door runs. */
import { createHash } from 'node:crypto';
import { type Hash, Kept } from '@holdfast/client/internal';
import { DoorError } from '../door.ts';

interface WatchedBody {
  readonly chunks: AsyncGenerator<Uint8Array, void, undefined>;
  /** Throws DoorError 400 where the client says another checksum. */
  finish(hash: Hash, said: string | string[] | undefined): void;
}

export class Checksums {
  readonly #known = new Kept<string>(50_000);

  find(hash: Hash): string | undefined {
    return this.#known.find(hash);
  }

  watch(chunks: AsyncGenerator<Uint8Array, void, undefined>, isWanted: boolean): WatchedBody {
    if (!isWanted) return { chunks, finish: () => undefined };
    const [sha1, md5] = [createHash('sha1'), createHash('md5')];
    const watching = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
      for await (const chunk of chunks) {
        sha1.update(chunk);
        md5.update(chunk);
        yield chunk;
      }
    };
    return {
      chunks: watching(),
      finish: (hash, said) => {
        const is: Readonly<Record<string, string>> = { SHA1: sha1.digest('hex'), MD5: md5.digest('hex') };
        for (const [, kind = '', digits = ''] of String(said ?? '').matchAll(/(\w+):([0-9a-fA-F]+)/g)) {
          const wanted = is[kind.toUpperCase()];
          if (wanted !== undefined && wanted !== digits.toLowerCase())
            throw new DoorError(400, `the ${kind} of what came is ${wanted}`);
        }
        this.#known.keep(hash, `SHA1:${is.SHA1} MD5:${is.MD5}`);
      },
    };
  }
}
