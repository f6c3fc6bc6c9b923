/** Memory of content that is read, for jobs that read much of it. */

/** Memory that is given back as soon as it can be. If the garbage collector did that, making new pages would cost as much as the copying. */
export interface ContentMemory {
  /** `length` bytes of any content */
  take(length: number): Uint8Array;
  /** Takes back memory of `take`, or a piece of a body, that nobody looks at any more. */
  give(bytes: Uint8Array): void;
}
