/** A store of bytes whose steps a test can hold up, repeat or fail. */
import type { Generation, Space } from '../model.ts';
import type { ContentStore, DeletedObjects } from '../ports.ts';
import type { StagedUpload, UploadReceiver } from '../upload-ports.ts';

/** Called in place of the port's own step; `step` is that step. */
type Door<T> = (step: () => Promise<T>) => Promise<T>;

export interface Doors {
  delete?: (step: () => Promise<void>, generation: Generation) => Promise<void>;
  inspect?: Door<Awaited<ReturnType<ContentStore['inspect']>>>;
  read?: Door<Uint8Array>;
  verify?: Door<void>;
  seal?: Door<boolean>;
}

export function withDoors(content: ContentStore, doors: Doors): ContentStore {
  const { upload } = content;
  return {
    upload: upload.kind === 'server' ? { kind: 'server', receiver: watch(upload.receiver, doors) } : upload,
    packs: content.packs,
    fillsScratch: content.fillsScratch,
    inspect: (...given) => through(doors.inspect, () => content.inspect(...given)),
    read: (...given) => through(doors.read, () => content.read(...given)),
    getVersion: (given) => content.getVersion(given),
    prove: (...given) => content.prove(...given),
    verify: (...given) => through(doors.verify, () => content.verify(...given)),
    verifyInline: (given) => content.verifyInline(given),
    delete: (space, generations) =>
      doors.delete === undefined
        ? content.delete(space, generations)
        : deleteThrough(doors.delete, content, space, generations),
    sweep: (...given) => content.sweep(...given),
    close: () => content.close(),
  };
}

function through<T>(door: Door<T> | undefined, step: () => Promise<T>): Promise<T> {
  return door === undefined ? step() : door(step);
}

function watch(receiver: UploadReceiver, doors: Doors): UploadReceiver {
  return {
    isReceiving: (generation) => receiver.isReceiving(generation),
    reservedBytes: (space) => receiver.reservedBytes(space),
    heldBytes: (space) => receiver.heldBytes(space),
    heldBytesOfApp: (...given) => receiver.heldBytesOfApp(...given),
    receivePack: (...given) => receiver.receivePack(...given),
    receive: async (...given) => {
      const staged: StagedUpload = await receiver.receive(...given);
      return {
        evidence: staged.evidence,
        inlineBytes: staged.inlineBytes,
        seal: () => through(doors.seal, () => staged.seal()),
        release: () => staged.release(),
      };
    },
  };
}

/** Each object by itself, all at once. */
async function deleteThrough(
  door: NonNullable<Doors['delete']>,
  content: ContentStore,
  space: Space,
  generations: readonly Generation[],
): Promise<DeletedObjects> {
  const deleted = new Set<Generation>();
  let failure: unknown;
  const deleteOne = async (generation: Generation): Promise<void> => {
    const step = async (): Promise<void> => {
      const outcome = await content.delete(space, [generation]);
      if (outcome.failure !== undefined) throw outcome.failure;
    };
    try {
      await door(step, generation);
      deleted.add(generation);
    } catch (error) {
      failure ??= error;
    }
  };
  await Promise.all(generations.map(deleteOne));
  return { deleted, failure };
}
