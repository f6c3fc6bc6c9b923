/** Object keys: `{prefix}nodes/{2 hex}/{space}/{generation}`. The digits spread keys over partitions. A key names its records. Pure. */
import { bytesToHash } from '@holdfast/protocol';
import { isGeneration } from '../../core/generation.ts';
import type { Generation, ObjectKey, Space } from '../../core/model.ts';
import { sha256 } from '../../core/signer.ts';
import { spaceKeyOf } from '../../core/space-map.ts';

const NODES = 'nodes/';
const PROBES = 'probe/';

const OBJECT_NAME = /^([0-9a-f]{2})\/([0-9a-f]{32})\/([0-9a-f]{32})$/;

export class ObjectKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  get marker(): string {
    return `${this.#prefix}holdfast-store`;
  }

  get epoch(): string {
    return `${this.#prefix}holdfast-epoch`;
  }

  get lastBackup(): string {
    return `${this.#prefix}holdfast-last-backup`;
  }

  get nodesPrefix(): string {
    return this.#prefix + NODES;
  }

  get probesPrefix(): string {
    return this.#prefix + PROBES;
  }

  keyOf({ spaceKey, generation }: ObjectKey): string {
    return `${this.#prefix}${NODES}${spreadOf(generation)}/${spaceKey}/${generation}`;
  }

  keyIn(space: Space, generation: Generation): string {
    return this.keyOf({ spaceKey: spaceKeyOf(space), generation });
  }

  /** `name` has the form of a generation, so that it tells its age. */
  probeOf(name: Generation): string {
    return `${this.#prefix}${PROBES}${name}`;
  }

  /** `undefined`: the key is not of our form, so it is left alone. */
  findObject(key: string): ObjectKey | undefined {
    if (!key.startsWith(this.nodesPrefix)) return undefined;
    const match = OBJECT_NAME.exec(key.slice(this.nodesPrefix.length));
    const [, spread, spaceKey, generation] = match ?? [];
    if (spaceKey === undefined || generation === undefined) return undefined;
    return spread === spreadOf(generation) ? { spaceKey, generation } : undefined;
  }

  findProbe(key: string): Generation | undefined {
    if (!key.startsWith(this.probesPrefix)) return undefined;
    const name = key.slice(this.probesPrefix.length);
    return isGeneration(name) ? name : undefined;
  }
}

function spreadOf(generation: Generation): string {
  return bytesToHash(sha256(generation)).slice(0, 2);
}
