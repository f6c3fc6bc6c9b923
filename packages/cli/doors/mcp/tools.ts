/** The tools by name: what each says of itself, takes and does. */
import { fields, type Schema, ToolError } from './arguments.ts';
import { type McpNames, PATH_BYTES_MAX, WHOLE_BYTES_MAX } from './mcp-names.ts';
import {
  type DiffArguments,
  diff,
  history,
  type ListArguments,
  list,
  READ_BYTES_DEFAULT,
  READ_BYTES_MAX,
  type ReadArguments,
  read,
} from './reading.ts';
import { type SearchArguments, search } from './search.ts';
import {
  type EditArguments,
  edit,
  type MoveArguments,
  move,
  type RemoveArguments,
  type RestoreArguments,
  remove,
  restore,
  type WriteArguments,
  write,
} from './writing.ts';

export interface Tool {
  readonly description: string;
  readonly schema: Schema;
  readonly isReading: boolean;
  /** `args` are as the schema says. */
  readonly run: (names: McpNames, args: never, signal: AbortSignal) => Promise<object>;
}

const text = (description: string, maxLength: number = 1024): Schema => ({
  type: 'string',
  description,
  maxLength,
});
const content = (description: string): Schema => text(description, 2 * WHOLE_BYTES_MAX);
const path = text('NAME/a/b: a name, and what is below it', PATH_BYTES_MAX);
const name = text('a name', PATH_BYTES_MAX);
const version = text('the id of an older version, as history gives it; the latest if left out');
const message = text('what the step is for; kept with the version, at most 1024 bytes');
const required = (schema: Schema): Schema => ({ ...schema, minLength: 1 });

export const TOOLS: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  [
    'list',
    {
      description:
        'What is in a folder; without path the names. more is the cursor of the next page, or false.',
      schema: fields({ path, version, cursor: text('more of the page before') }, []),
      isReading: true,
      run: (names, args: ListArguments) => list(names, args),
    },
  ],
  [
    'read',
    {
      description: `Bytes of a file as text, or as base64 if they are no UTF-8. total is the size of the file in bytes.`,
      schema: fields(
        {
          path,
          version,
          offset: { type: 'integer', minimum: 0, description: 'in bytes' },
          length: {
            type: 'integer',
            minimum: 1,
            maximum: READ_BYTES_MAX,
            description: `bytes; ${READ_BYTES_DEFAULT} if left out`,
          },
        },
        ['path'],
      ),
      isReading: true,
      run: (names, args: ReadArguments) => read(names, args),
    },
  ],
  [
    'history',
    {
      description: 'The versions of a name, the newest first. Each can be read, compared and restored.',
      schema: fields({ name }, ['name']),
      isReading: true,
      run: (names, args: { readonly name: string }) => history(names, args),
    },
  ],
  [
    'diff',
    {
      description:
        'What changed from one version of a name to another, or to the latest: added, removed, modified, renamed.',
      schema: fields({ name, from: version, to: version }, ['name', 'from']),
      isReading: true,
      run: (names, args: DiffArguments) => diff(names, args),
    },
  ],
  [
    'search',
    {
      description:
        'Files, folders and links by name, or lines of files by text, below a path. more: narrow it to see the rest.',
      schema: fields(
        {
          path,
          names: text('a glob such as *.md for names, or src/**/*.ts for paths below path'),
          text: required(text('looked for as it stands, within lines')),
          limit: { type: 'integer', minimum: 1, maximum: 1000 },
        },
        ['path'],
      ),
      isReading: true,
      run: (names, args: SearchArguments, signal) => search(names, args, signal),
    },
  ],
  [
    'write',
    {
      description:
        'Writes files of one name as one version. Missing folders are made; files that are there are replaced.',
      schema: fields(
        {
          files: {
            type: 'array',
            minItems: 1,
            maxItems: 256,
            description: `text or base64 each, at most ${WHOLE_BYTES_MAX} bytes together`,
            items: fields(
              {
                path,
                text: content('the file as text'),
                base64: content('the file as base64'),
                executable: { type: 'boolean' },
              },
              ['path'],
            ),
          },
          message,
        },
        ['files'],
      ),
      isReading: false,
      run: (names, args: WriteArguments, signal) => write(names, args, signal),
    },
  ],
  [
    'edit',
    {
      description:
        'Replaces text in a file, one edit after the other. Each oldText must stand exactly once, else nothing changes.',
      schema: fields(
        {
          path,
          edits: {
            type: 'array',
            minItems: 1,
            maxItems: 256,
            items: fields(
              { oldText: required(content('stands there now')), newText: content('takes its place') },
              ['oldText', 'newText'],
            ),
          },
          message,
        },
        ['path', 'edits'],
      ),
      isReading: false,
      run: (names, args: EditArguments, signal) => edit(names, args, signal),
    },
  ],
  [
    'move',
    {
      description: 'Moves or renames a file or folder within a name. Nothing may be at the new path.',
      schema: fields({ from: path, to: path, message }, ['from', 'to']),
      isReading: false,
      run: (names, args: MoveArguments, signal) => move(names, args, signal),
    },
  ],
  [
    'remove',
    {
      description: 'Removes a file, link, or folder with all below it. Older versions keep it.',
      schema: fields({ path, message }, ['path']),
      isReading: false,
      run: (names, args: RemoveArguments, signal) => remove(names, args, signal),
    },
  ],
  [
    'restore',
    {
      description:
        'Makes an older version of a name, or what stood at a path of it, the latest again, as a new version.',
      schema: fields({ name, version, path, message }, ['name', 'version']),
      isReading: false,
      run: (names, args: RestoreArguments, signal) => restore(names, args, signal),
    },
  ],
]);

/** Throws ToolError. */
export function findTool(toolName: string, isReadOnly: boolean): Tool | undefined {
  const tool = TOOLS.get(toolName);
  if (tool !== undefined && isReadOnly && !tool.isReading)
    throw new ToolError(`this door only reads: ${toolName} is not offered`);
  return tool;
}
