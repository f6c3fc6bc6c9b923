/** The rooms of the house and what each may import. */

/** The imports that one room may have: prefixes of resolved paths (`packages/…`) and exact names of packages. */
export interface Room {
  readonly folder: string;
  readonly folders: readonly string[];
  /** exceptions from `folders` */
  readonly exceptFolders?: readonly string[];
  readonly packages: readonly string[];
  readonly nodeModules: boolean;
  /** why, in the words a reader of the failure needs */
  readonly reason: string;
}

const PROTOCOL = '@holdfast/protocol';
const CLIENT = '@holdfast/client';
/** The SDK's door for the packages of this repository. */
const CLIENT_INTERNAL = '@holdfast/client/internal';
const FILES = '@holdfast/files';
/** A command that starts loads no more than it needs: the C library, the counting of progress, pushes, what is common, each by itself. */
const SYSTEM_LIBRARY = '@holdfast/files/system-library';
const CLIENT_PUSH = '@holdfast/client/push';
const NARROW = [CLIENT_PUSH, '@holdfast/client/progress', '@holdfast/files/common', '@holdfast/files/push'];
export const NARROW_DOORS: readonly string[] = [CLIENT_INTERNAL, SYSTEM_LIBRARY, ...NARROW];
const SERVER = '@holdfast/server';

/** The local state of pushes by the command line. */
export const FILES_STATE = 'packages/files/state/';

/** Gateways and mounts: what people already use opens onto names. */
const DOORS = 'packages/cli/doors/';

/** The port to the registered Apps. */
const REGISTRY_PORT = 'packages/server/auth/registry-store.ts';
/** The ports by which engines give and take whole deployments. */
const ENGINE_PORTS = ['packages/server/engine/transfer-ports.ts', 'packages/server/engine/backup-ports.ts'];

/** What lies right in `engine/` for all stores. */
const ENGINE_FILES = [
  ...['address', 'given-file', 'local-failure', 'packed-object', 'refused', 'schema-version', 'steady-clock'],
  ...['store-identity', 'store-trial', 'unzstd'],
];

/** Copying deployments. */
const TRANSFER = 'packages/server/transfer/';

const METRICS = 'packages/server/metrics/';
const SHARES = 'packages/server/shares/';
const TRACES = 'packages/server/traces/';
/** Workarounds of the runtime. */
const RUNTIME = 'packages/server/runtime/';

/** The rooms of trees in the SDK, the lowest first. */
const TREE_ROOMS = ['format', 'build', 'read', 'jobs', 'walk', 'edit', 'push', 'pull'];

/** First match wins, so the narrow rooms come first. Tools beside a package run on the developer's machine only. */
export const ROOMS: readonly Room[] = [
  {
    folder: 'packages/protocol/tools/',
    folders: ['packages/protocol/'],
    packages: [],
    nodeModules: true,
    reason: 'a tool of protocol works on protocol alone',
  },
  {
    folder: 'packages/protocol/',
    folders: ['packages/protocol/'],
    packages: [],
    nodeModules: false,
    reason: 'protocol does no I/O and depends on nothing',
  },
  {
    folder: 'packages/client/tools/',
    folders: ['packages/client/'],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'a tool of client knows client and protocol',
  },
  ...clientRooms(),
  ...filesRooms(),
  {
    folder: `${DOORS}mcp/`,
    folders: [DOORS, 'packages/cli/terminal/output.ts'],
    packages: [
      PROTOCOL,
      CLIENT,
      CLIENT_INTERNAL,
      '@modelcontextprotocol/server',
      '@modelcontextprotocol/server/stdio',
    ],
    nodeModules: true,
    reason: 'only its door loads the MCP SDK',
  },
  {
    folder: DOORS,
    folders: [
      DOORS,
      ...['cli-error.ts', 'files.ts', 'terminal/output.ts', 'terminal/interruption.ts'].map(
        (file) => `packages/cli/${file}`,
      ),
    ],
    packages: [PROTOCOL, CLIENT, CLIENT_INTERNAL, SYSTEM_LIBRARY, 'bun:ffi'],
    nodeModules: true,
    reason: 'a door is a client over the SDK: it knows no command and no server',
  },
  {
    folder: 'packages/cli/',
    folders: ['packages/cli/'],
    packages: [...[PROTOCOL, CLIENT, FILES, SERVER, ...NARROW_DOORS], ...['commander', 'jose', 'bun:ffi']],
    nodeModules: true,
    reason: 'the command line uses the SDK and the door of the server, never its inside',
  },
  ...consoleRooms(),
  {
    folder: 'packages/conformance/',
    folders: ['packages/conformance/'],
    packages: [PROTOCOL, 'commander', 'jose'],
    nodeModules: true,
    reason: 'conformance is a black box over HTTP',
  },
  {
    folder: 'packages/server/core/',
    folders: ['packages/server/core/', RUNTIME],
    packages: [PROTOCOL],
    nodeModules: false,
    reason: 'core holds the rules: protocol and its own ports only',
  },
  {
    folder: RUNTIME,
    folders: [RUNTIME],
    packages: [PROTOCOL, 'bun:ffi'],
    nodeModules: true,
    reason: 'a workaround of the runtime knows nothing but the runtime',
  },
  {
    folder: METRICS,
    folders: [METRICS],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'metrics are counted by others and know nobody',
  },
  {
    folder: TRACES,
    folders: [TRACES, METRICS, 'packages/server/errors.ts'],
    packages: [],
    nodeModules: true,
    reason: 'traces are told by others and know nobody',
  },
  {
    folder: SHARES,
    folders: [SHARES, METRICS],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'sharing out a resource knows no resource',
  },
  {
    folder: 'packages/server/auth/',
    folders: ['packages/server/auth/', 'packages/server/core/', METRICS, SHARES],
    packages: [PROTOCOL, 'jose'],
    nodeModules: true,
    reason: 'auth knows neither http nor engines',
  },
  {
    folder: 'packages/server/http/',
    folders: [
      'packages/server/http/',
      'packages/server/core/',
      'packages/server/auth/',
      'packages/server/audit/',
      METRICS,
      RUNTIME,
      SHARES,
      TRACES,
    ],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'http knows core, auth and protocol, never an engine',
  },
  {
    folder: TRANSFER,
    folders: [
      TRANSFER,
      'packages/server/deployment/',
      'packages/server/core/',
      REGISTRY_PORT,
      ...ENGINE_PORTS,
      'packages/server/errors.ts',
    ],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'copying a deployment knows the rules and open deployments, no engine',
  },
  {
    folder: 'packages/server/backup/',
    folders: [
      'packages/server/backup/',
      'packages/server/deployment/',
      'packages/server/core/',
      'packages/server/engine/backup-ports.ts',
      'packages/server/errors.ts',
    ],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'a backup knows the rules, open deployments and the ports of a backup, no engine',
  },
  engineRoom('sqlite', ['bun:sqlite'], 'rows in SQLite know nothing of where the bytes are, nor of http'),
  engineRoom('disk', ['bun:sqlite', 'bun'], 'bytes on disk know nothing of rows, nor of http'),
  engineRoom('postgres', [], 'rows in PostgreSQL know nothing of where the bytes are, nor of http'),
  engineRoom('s3', ['@aws-sdk/credential-provider-node'], 'bytes in S3 know nothing of rows, nor of http'),
];

/** One store: it knows the ports it implements and its own driver. */
function engineRoom(store: string, packages: readonly string[], reason: string): Room {
  const folder = `packages/server/engine/${store}/`;
  const folders = [
    folder,
    ...ENGINE_PORTS,
    'packages/server/error-code.ts',
    'packages/server/engine/rows/',
    ...ENGINE_FILES.map((name) => `packages/server/engine/${name}.ts`),
    'packages/server/core/',
    METRICS,
    RUNTIME,
    SHARES,
    REGISTRY_PORT,
  ];
  return { folder, folders, packages: [PROTOCOL, ...packages], nodeModules: true, reason };
}

/** Inside the SDK: the rooms of trees stand on each other in one order, and the root knows none of them. */
function clientRooms(): Room[] {
  const tree = 'packages/client/tree/';
  const bundle = 'packages/client/bundle/';
  const catalog = 'packages/client/catalog/';
  const heads = 'packages/client/heads/';
  const doors = ['index', 'internal', 'push'].map((door) => `packages/client/${door}.ts`);
  const inside = 'packages/client/';
  const room = (folder: string, folders: readonly string[], reason: string): Room => {
    return { folder, folders, packages: [PROTOCOL], nodeModules: false, reason };
  };
  const except = (exceptFolders: readonly string[], of: Room): Room => ({ ...of, exceptFolders });
  const treeRoom = (name: string, below: readonly string[], sdk: readonly string[], reason: string): Room => {
    const rooms = [name, ...below].map((each) => `${tree}${each}/`);
    return room(`${tree}${name}/`, [...rooms, ...sdk.map((file) => `${inside}${file}`)], reason);
  };
  /** May import the SDK's root and the rooms `below` it, and nothing else of trees. */
  const job = (name: string, below: readonly string[], reason: string): Room => {
    const others = TREE_ROOMS.filter((each) => each !== name && !below.includes(each));
    const closed = [bundle, catalog, heads, ...doors, ...others.map((each) => `${tree}${each}/`)];
    return except(closed, room(`${tree}${name}/`, [inside], reason));
  };
  return [
    treeRoom('format', [], ['sha256.ts'], 'the tree format is layouts, cuts and their rules alone'),
    treeRoom(
      'build',
      ['format'],
      ['arguments.ts', 'digest.ts'],
      'building is pure: nodes leave it through its sink',
    ),
    treeRoom(
      'read',
      ['format'],
      ['arguments.ts', 'client.ts', 'map-in-order.ts', 'operations.ts'],
      'reading knows the format, and nodes through its source',
    ),
    job('jobs', ['format', 'read'], 'what long jobs share knows none of them'),
    job('walk', ['format', 'read', 'jobs'], 'a walk reads trees: it neither builds, pushes nor pulls'),
    job('edit', ['format', 'build', 'read', 'walk'], 'an edit changes a stored tree: it pushes no folder'),
    job('push', ['format', 'build', 'jobs'], 'a push sends nodes of a supply: it neither reads nor pulls'),
    job('pull', ['format', 'read', 'jobs', 'walk'], 'a pull walks a tree: it neither builds nor pushes'),
    except(
      [tree, catalog, heads, ...doors],
      room(bundle, [inside], 'bundles carry nodes of any kind: they know no trees'),
    ),
    except(
      [tree, bundle, heads, ...doors],
      room(catalog, [inside], 'names keep roots of any kind: they know no trees'),
    ),
    except(
      [bundle, ...doors],
      room(heads, [inside], 'the head of a name is a tree: here alone names and trees meet'),
    ),
    ...doors.map((door) =>
      room(door, [inside], 'the doors of the SDK run on web standards and protocol alone'),
    ),
    except(
      [tree, bundle, catalog, heads, ...doors],
      room(inside, [inside], 'the SDK runs on web standards and protocol alone'),
    ),
  ];
}

/** The page that a browser runs, and the door that builds it for the server. */
function consoleRooms(): Room[] {
  const page = 'packages/console/page/';
  const views = ['preact', 'preact/hooks', '@preact/signals'];
  return [
    {
      folder: `${page}space/`,
      folders: [page],
      packages: [PROTOCOL, CLIENT, CLIENT_INTERNAL, ...views, '@dagrejs/dagre'],
      nodeModules: false,
      reason: 'the views of a Space run in a browser, and reach the Space by the SDK',
    },
    {
      folder: page,
      folders: [page],
      packages: [PROTOCOL, ...views, 'uplot', 'uplot/dist/uPlot.min.css'],
      nodeModules: false,
      reason: 'the first view runs in a browser without the SDK, which comes with the views of a Space',
    },
    {
      folder: 'packages/console/',
      folders: ['packages/console/'],
      exceptFolders: [page],
      packages: [],
      nodeModules: true,
      reason: 'the door of the console hands the built page to the server, and knows nothing of either',
    },
  ];
}

/** The disk for the SDK: pushes and pulls do not know each other, and the root, but for its doors, knows neither. */
function filesRooms(): Room[] {
  const push = 'packages/files/push/';
  const pull = 'packages/files/pull/';
  const writer = 'packages/files/writer/';
  const inside = 'packages/files/';
  const doors = ['packages/files/index.ts', 'packages/files/push.ts', 'packages/files/sdk.ts'];
  const room = (folder: string, exceptFolders: readonly string[], reason: string): Room => {
    const packages = [PROTOCOL, CLIENT, CLIENT_INTERNAL, CLIENT_PUSH, ...(folder === push ? ['ignore'] : [])];
    return { folder, folders: [inside], exceptFolders, packages, nodeModules: true, reason };
  };
  const [commandLine = '', pushes = '', sdk = ''] = doors;
  return [
    {
      ...room(FILES_STATE, [pull, ...doors], 'the state of pushes is SQLite behind a port of push'),
      packages: [PROTOCOL, CLIENT, CLIENT_INTERNAL, 'bun:sqlite'],
    },
    room(commandLine, [push, pushes, sdk], 'the door of files for the command line names what files has'),
    room(pushes, [pull, writer, commandLine, sdk], 'the door to pushes loads nothing else'),
    room(
      sdk,
      [FILES_STATE, writer, commandLine, pushes],
      'the door of the SDK runs on Node too: never the state on SQLite',
    ),
    room(
      push,
      [pull, writer, FILES_STATE, ...doors],
      'a push runs on Node too, and knows its state through a port',
    ),
    room(
      pull,
      [push, writer, FILES_STATE, ...doors],
      'a pull knows nothing of pushes, and its thread through a port',
    ),
    room(writer, [push, FILES_STATE, ...doors], 'the thread that makes files is behind a port of pull'),
    room(
      inside,
      [push, pull, writer, FILES_STATE, ...doors],
      'files gives the SDK its disk on Node too: never Bun, the command line or the server',
    ),
  ];
}

/** One file alone may name a concrete engine: it opens deployments. Code that all engines share lies beside their folders. */
export const CONCRETE_ENGINE = /^packages\/server\/engine\/[^/]+\//;
export const COMPOSITION_ROOT = 'packages/server/deployment/open.ts';

/**
 * The floors of the server, from the ground up: what is on one knows nothing of those above it. Files that lie right in a folder
 * come before its rooms.
 */
export const FLOORS: readonly RegExp[] = [
  'runtime/',
  '(?:(?:error-code|errors|log|log-output|log-repeats|secret-file|standard-stream)\\.ts|package\\.json)$',
  'metrics/',
  'traces/',
  'shares/',
  'core/(?!transactions)[^/]+$',
  ...['rows/', 'read/', 'refs/', 'collect/', 'lease/', 'packs/', ''].map((verb) => `core/${verb}`),
  'auth/',
  'engine/[^/]+$',
  'engine/',
  'background/',
  'deployment/',
  'transfer/',
  'inspect/',
  'backup/',
  'audit/',
  'http/',
  'operator/',
  'serve/',
  'index\\.ts$',
].map((floor) => new RegExp(`^packages/server/${floor}`));
