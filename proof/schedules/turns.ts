/** A core whose every port call is a turn: before it, another whole operation may run. */
import type { Core } from '../../packages/server/core/core.ts';
import type { ContentStore, MetadataStore } from '../../packages/server/core/ports.ts';
import type { UploadReceiver } from '../../packages/server/core/upload-ports.ts';

/** Awaited before each port call. */
export type Turn = () => Promise<void>;

const NO_TURN_BEFORE = new Set<string | symbol>(['close', 'rest', 'constructor']);
const CONTENT_TURNS = new Set<string | symbol>([
  ...['inspect', 'read', 'getVersion', 'prove', 'verify', 'delete', 'sweep'],
]);
const PACK_TURNS = new Set<string | symbol>(['inspect', 'readRecord', 'readRecords', 'write']);
const STAGED_TURNS = new Set<string | symbol>(['seal', 'release']);

export function withTurns(core: Core, turn: Turn): Core {
  return { ...core, metadata: metadataOf(core.metadata, turn), content: contentOf(core.content, turn) };
}

function metadataOf(metadata: MetadataStore, turn: Turn): MetadataStore {
  return beforeCalls(metadata, turn, (name) => !NO_TURN_BEFORE.has(name));
}

function contentOf(content: ContentStore, turn: Turn): ContentStore {
  const { upload } = content;
  const packs = beforeCalls(content.packs, turn, (name) => PACK_TURNS.has(name));
  const watched =
    upload.kind === 'server' ? { ...upload, receiver: receiverOf(upload.receiver, turn) } : upload;
  const calls = beforeCalls(content, turn, (name) => CONTENT_TURNS.has(name));
  return new Proxy(calls, {
    get(target, name) {
      if (name === 'packs') return packs;
      return name === 'upload' ? watched : Reflect.get(target, name);
    },
  });
}

function receiverOf(receiver: UploadReceiver, turn: Turn): UploadReceiver {
  return new Proxy(receiver, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'receive' && name !== 'receivePack') return value.bind(target);
      return async (...given: unknown[]) => {
        await turn();
        const staged: object = await value.apply(target, given);
        return beforeCalls(staged, turn, (step) => STAGED_TURNS.has(step));
      };
    },
  });
}

function beforeCalls<T extends object>(port: T, turn: Turn, isTurn: (name: string | symbol) => boolean): T {
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (!isTurn(name)) return value.bind(target);
      return async (...given: unknown[]) => {
        await turn();
        return value.apply(target, given);
      };
    },
  });
}
