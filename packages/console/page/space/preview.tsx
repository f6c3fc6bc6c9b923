/**
 * Content of others on this page. Text is shown from memory in a frame of its own, as plain text whatever it says it is. The frame is
 * sandboxed: no scripts, no forms, not this page's origin. An image is a raster image by its first bytes, and shown as one.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { formatBytes } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';
import { findPreviewKind, formatHex, type PreviewKind } from './preview-kind.ts';

const IMAGE_BYTES_MAX = 16 * 1024 * 1024;

/** Bytes `start` up to but not including `end`. */
type ReadBytes = (start: number, end: number, signal: AbortSignal) => Promise<Uint8Array>;

interface PreviewProps {
  /** what is shown, such as the hash: another key is another content */
  readonly contentKey: string;
  readonly bytes: number;
  readonly read: ReadBytes;
}

interface Part {
  readonly kind: PreviewKind;
  readonly start: number;
  readonly end: number;
  readonly content: Uint8Array;
}

export function Preview({ contentKey, bytes, read }: PreviewProps) {
  const [start, setStart] = useState(0);
  const loaded = useLoaded(`${contentKey} ${start}`, (signal) => readPart(bytes, start, read, signal));
  if (bytes === 0) return <Empty title="Empty: there are no bytes to show" />;
  return (
    <section class="preview" aria-label="Preview">
      <Shown loaded={loaded} what="the preview">
        {(part) => <ShownPart part={part} bytes={bytes} onPart={setStart} />}
      </Shown>
    </section>
  );
}

async function readPart(bytes: number, start: number, read: ReadBytes, signal: AbortSignal): Promise<Part> {
  const first = await read(0, Math.min(bytes, 4096), signal);
  const kind = findPreviewKind(first);
  const wanted =
    kind.type === 'image'
      ? bytes > IMAGE_BYTES_MAX
        ? 0
        : bytes
      : kind.type === 'text'
        ? 256 * 1024
        : 4 * 1024;
  const end = Math.min(bytes, start + wanted);
  return { kind, start, end, content: wanted === 0 ? new Uint8Array(0) : await read(start, end, signal) };
}

function ShownPart({
  part,
  bytes,
  onPart,
}: {
  readonly part: Part;
  readonly bytes: number;
  readonly onPart: (start: number) => void;
}) {
  const { kind, start, end, content } = part;
  if (kind.type === 'image' && content.length === 0) {
    return (
      <Notice>
        <p>
          An image of {formatBytes(bytes)}: previews end at {formatBytes(IMAGE_BYTES_MAX)}. Download it to see
          it.
        </p>
      </Notice>
    );
  }
  const isWhole = start === 0 && end === bytes;
  return (
    <>
      {kind.type === 'binary' ? <p class="soft">No text and no image: its bytes, in hexadecimal.</p> : null}
      <ShownContent kind={kind} content={content} start={start} />
      {isWhole ? null : (
        <div class="parts">
          <button
            type="button"
            disabled={start === 0}
            onClick={() => onPart(Math.max(0, start - (end - start)))}
          >
            Earlier
          </button>
          <button type="button" disabled={end === bytes} onClick={() => onPart(end)}>
            Later
          </button>
          <span class="soft" role="status">
            Bytes {start} to {end} of {bytes}
          </span>
        </div>
      )}
    </>
  );
}

interface ContentProps {
  readonly kind: PreviewKind;
  readonly content: Uint8Array;
  readonly start: number;
}

/** Without scrolling, as far as there is room. */
const FRAME_LINES_MAX = 30;
const FRAME_LINE_PX = 18;
const FRAME_PADDING_PX = 40;

function ShownContent({ kind, content, start }: ContentProps) {
  const text = useMemo(
    () =>
      kind.type === 'image'
        ? ''
        : kind.type === 'text'
          ? new TextDecoder().decode(content)
          : formatHex(content, start),
    [kind, content, start],
  );
  const [url, setUrl] = useState<string | undefined>(undefined);
  useEffect(() => {
    const made = URL.createObjectURL(makeBlob(kind, content, text));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [kind, content, text]);
  if (kind.type === 'image')
    return <div class="picture">{url === undefined ? null : <img src={url} alt="Preview" />}</div>;
  const height = `${Math.min(FRAME_LINES_MAX, countLines(text)) * FRAME_LINE_PX + FRAME_PADDING_PX}px`;
  if (url === undefined) return <div class="frame" style={{ height }} />;
  // A new element for each content, so that the frame leaves nothing in the history.
  return (
    <iframe key={url} class="frame" sandbox="" src={url} title="The content as text" style={{ height }} />
  );
}

function countLines(text: string): number {
  let lines = 0;
  for (const line of text.split('\n', FRAME_LINES_MAX)) lines += Math.max(1, Math.ceil(line.length / 110));
  return lines;
}

function makeBlob(kind: PreviewKind, content: Uint8Array, text: string): Blob {
  if (kind.type === 'image') return new Blob([content as Uint8Array<ArrayBuffer>], { type: kind.mediaType });
  return new Blob([text], { type: 'text/plain;charset=utf-8' });
}
