/** Where files lie that answers are sent from, and how much of them there may be. */
import { mkdirSync, statfsSync } from 'node:fs';
import { FairShares } from '../shares/fair-shares.ts';

/** The files of one kind that this process sends answers from. */
export interface SentPlace {
  /** where private copies are made; undefined: objects are sent as they lie, which takes no room */
  readonly copies: CopyFolder | undefined;
  /** out of which the files of this process are held, in bytes */
  readonly shares: FairShares;
  /** bytes of all files here, proven or about to be */
  heldBytes: number;
  provenBytes: number;
}

/** A folder whose file system holds copies. */
interface CopyFolder {
  readonly folder: string;
  /** bytes that must stay free on the file system, whatever else happens there */
  readonly keptFreeBytes: () => number;
  /** how many processes keep copies on this file system, by the same rules */
  readonly processes: number;
}

interface CopyPlaceOptions extends CopyFolder {
  /** names it in metrics */
  readonly resource: string;
  /** of all processes together */
  readonly bytesMax: number;
}

/** This file system cannot take a copy, or more of it: another one may. */
export class PlaceFailed extends Error {
  override readonly name = 'PlaceFailed';
}

/** The size of the file system bounds the shares too: on a small disk a share is small. */
export function makeCopyPlace({ resource, bytesMax, ...copies }: CopyPlaceOptions): SentPlace {
  const { blocks, bsize } = statfsSync(copies.folder);
  const capacity = Math.floor(Math.min(bytesMax, (blocks * bsize) / 2) / copies.processes);
  return { copies, shares: new FairShares({ resource, capacity }), heldBytes: 0, provenBytes: 0 };
}

/** Objects that are sent as they lie. Their share bounds what stalled readers keep on the disk after it was deleted. */
export function makeObjectPlace(capacity: number): SentPlace {
  const shares = new FairShares({ resource: 'bytes of objects that are sent', capacity });
  return { copies: undefined, shares, heldBytes: 0, provenBytes: 0 };
}

/** Copies never hold more of a file system than they leave free, so that readers cannot keep writers from it. */
export function hasRoom(place: SentPlace, missingBytes: number): boolean {
  if (missingBytes === 0 || place.copies === undefined) return true;
  const heldBytes = place.heldBytes + missingBytes;
  const unwrittenBytes = heldBytes - place.provenBytes;
  const spareBytes = readFreeBytes(place.copies) - unwrittenBytes - place.copies.keptFreeBytes();
  return spareBytes >= heldBytes * place.copies.processes;
}

/** Makes the folder again if something removed it: it looks empty, and systems clean their temporary folders. Throws PlaceFailed. */
function readFreeBytes({ folder }: CopyFolder): number {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch (error) {
    throw new PlaceFailed(`no copy can be made in ${folder}`, { cause: error });
  }
}
