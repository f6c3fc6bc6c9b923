/** Every metric of the server, one constant each; docs/metrics.md says the same. Several servers in one process share them. */
import { MetricRegistry } from './registry.ts';

export const METRICS = new MetricRegistry();

/** Transactions of one commit. */
const GROUP_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

export const REQUESTS = METRICS.counters(
  'holdfast_requests_total',
  'Requests answered, by operation, HTTP status and App',
  ['operation', 'status', 'app'],
);
export const REQUEST_DURATION = METRICS.histograms(
  'holdfast_request_duration_seconds',
  'Time from a request to the head of its answer, by operation',
  ['operation'],
);
export const REQUESTS_IN_FLIGHT = METRICS.gauge(
  'holdfast_requests_in_flight',
  'Requests that are being answered now',
);
export const SENT_BYTES = METRICS.counter('holdfast_sent_bytes_total', 'Bytes of the bodies of answers');
export const RECEIVED_BYTES = METRICS.counter(
  'holdfast_received_bytes_total',
  'Bytes of the bodies of requests, uploads included',
);
export const UPLOADS_IN_FLIGHT = METRICS.gauge(
  'holdfast_uploads_in_flight',
  'Uploads whose bytes are being received now',
);

export const QUEUE_WAIT = METRICS.histograms(
  'holdfast_queue_wait_seconds',
  'Time that work waited for its share of a resource',
  ['resource'],
);
export const REJECTIONS = METRICS.counters(
  'holdfast_rejections_total',
  'Work refused because of the share of a resource, by reason',
  ['resource', 'reason'],
);
export const QUOTA_REFUSALS = METRICS.counters(
  'holdfast_quota_refusals_total',
  'Uploads and publications refused because of a quota, by whose it is and what it limits',
  ['holder', 'unit'],
);
export const SHARE_IN_USE = METRICS.gauges(
  'holdfast_share_in_use',
  'How much of a shared resource is in use, in its own unit',
  ['resource'],
);
export const SHARE_LIMIT = METRICS.gauges(
  'holdfast_share_limit',
  'How much of a shared resource there is, in its own unit',
  ['resource'],
);
export const SHARE_WAITING = METRICS.gauges(
  'holdfast_share_waiting',
  'How many wait for their share of a resource now',
  ['resource'],
);

export const GROUP_COMMIT_SIZE = METRICS.histogram(
  'holdfast_group_commit_size',
  'Transactions that one commit of the database made durable together',
  { bounds: GROUP_BUCKETS },
);
export const FSYNC_DURATION = METRICS.histograms(
  'holdfast_fsync_duration_seconds',
  'Time of one call that makes data durable: of a file, a folder or the database',
  ['kind'],
);
export const SQL_DURATION = METRICS.histograms(
  'holdfast_sql_duration_seconds',
  'Time of one transaction or read in the database of rows, waiting included',
  ['engine'],
);
export const S3_DURATION = METRICS.histograms(
  'holdfast_s3_request_duration_seconds',
  'Time of one S3 request to the head of its answer, each repetition by itself',
  ['method'],
);
export const POOL_CONNECTIONS = METRICS.gauges(
  'holdfast_pool_connections',
  'Connections to PostgreSQL that are lent, idle, or possible at most, and work that waits for one',
  ['state'],
);
export const CACHE_REQUESTS = METRICS.counters(
  'holdfast_cache_requests_total',
  'Look-ups in a cache of this process, by result',
  ['cache', 'result'],
);
export const ENGINE_UP = METRICS.gauges(
  'holdfast_engine_up',
  'Whether the last request to an engine was answered (1) or it was away (0)',
  ['engine'],
  { merge: 'min' },
);
export const FREE_BYTES = METRICS.gauge(
  'holdfast_data_free_bytes',
  'Free space of the file system that holds the data folder',
  { merge: 'max' },
);
export const FREE_INODES = METRICS.gauge(
  'holdfast_data_free_inodes',
  'Free inodes of the file system that holds the data folder; 0 also where it makes them as needed (btrfs)',
  { merge: 'max' },
);

export const ROTTEN_NODES = METRICS.gauge(
  'holdfast_rotten_nodes',
  'Nodes whose stored content is proven bad, over all Spaces; of each Space at most 10,000 are counted',
  { merge: 'max' },
);
export const ROT_FOUND = METRICS.counter('holdfast_rot_found_total', 'Nodes whose content was found bad');
export const ROT_HEALED = METRICS.counters(
  'holdfast_rot_healed_total',
  'Rotten nodes that are ready again: their bytes were uploaded again, or proved good',
  ['how'],
);
export const SCRUBBED_NODES = METRICS.counter(
  'holdfast_scrubbed_nodes_total',
  'Nodes that the scrub has read',
);
export const SCRUBBED_BYTES = METRICS.counter(
  'holdfast_scrubbed_bytes_total',
  'Bytes that the scrub has read',
);
export const PACK_DEAD_BYTES = METRICS.gauge(
  'holdfast_pack_dead_bytes',
  'Bytes in packs that no node needs any more and compaction will free, as last looked at by this server',
  { merge: 'max' },
);
export const COMPACTED_BYTES = METRICS.counter(
  'holdfast_compacted_bytes_total',
  'Bytes that compaction has read and written',
);
export const COMPACTED_RECORDS = METRICS.counter(
  'holdfast_compacted_records_total',
  'Nodes that compaction has moved into new packs',
);
export const FORGOTTEN_COMMITS = METRICS.counter(
  'holdfast_forgotten_commits_total',
  'Records of root-ref commits that were deleted for their age',
);
export const PACKED_NODES = METRICS.counter(
  'holdfast_packed_nodes_total',
  'Small nodes that compaction has moved from objects of their own into packs',
);
export const COLLECTED_NODES = METRICS.counter(
  'holdfast_collected_nodes_total',
  'Nodes that collection deleted',
);
export const COLLECTED_BYTES = METRICS.counter(
  'holdfast_collected_bytes_total',
  'Bytes of content that collection deleted',
);
export const SWEEP_LAG = METRICS.gauge(
  'holdfast_sweep_lag_seconds',
  'Time since the sweep last had nothing left to do, on the process that has its turn',
  { merge: 'max' },
);
export const BACKGROUND_FAILURES = METRICS.counters(
  'holdfast_background_failures_total',
  'Failed steps of background work',
  ['loop'],
);
export const GC_LAST_SUCCESS = METRICS.gauge(
  'holdfast_gc_last_success_timestamp_seconds',
  'When a collection last succeeded on this server; 0: not since its start',
  { merge: 'max' },
);
export const SCRUB_LAST_SUCCESS = METRICS.gauge(
  'holdfast_scrub_last_success_timestamp_seconds',
  'When the scrub last finished its walk over everything on this server; 0: not since its start',
  { merge: 'max' },
);
export const BACKUP_LAST_SUCCESS = METRICS.gauge(
  'holdfast_backup_last_success_timestamp_seconds',
  'When a backup of the data folder or of the bucket last succeeded, the older of them; 0: never',
  { merge: 'max' },
);

export const STRAY_WALK_STOPPED = METRICS.gauge(
  'holdfast_stray_walk_stopped',
  'Whether the walk over all objects stopped, because the rows know too few of them; 1: until an operator says so',
  { merge: 'max' },
);
export const CLOCK_SKEW = METRICS.gauges(
  'holdfast_clock_skew_seconds',
  "By how much another clock is ahead of this server's: of the rows, of the store of bytes",
  ['source'],
  { merge: 'max' },
);
export const JWKS_FAILURES = METRICS.counter(
  'holdfast_jwks_failures_total',
  'Failed fetches of the key sets of Apps',
);
export const KEY_SET_REFUSALS = METRICS.counters(
  'holdfast_key_set_refusals_total',
  'Requests answered 503 because the key set of their App could not be used',
  ['app'],
);
export const APP_STORED_BYTES = METRICS.gauges(
  'holdfast_app_stored_bytes',
  'Bytes of content that an App stores, as of the last reading',
  ['app'],
  { merge: 'max' },
);
export const APP_QUOTA_BYTES = METRICS.gauges(
  'holdfast_app_quota_bytes',
  'Bytes of content that an App may store; no sample: no limit',
  ['app'],
  { merge: 'max' },
);
export const PENDING_BYTES = METRICS.gauges(
  'holdfast_pending_bytes',
  'Bytes that an App has sent and no lease has judged yet, as of the last reading',
  ['app'],
  { merge: 'max' },
);
export const AUDIT_LINES = METRICS.counter(
  'holdfast_audit_lines_total',
  'Lines of the audit log that were written',
);
export const AUDIT_LOST = METRICS.counter(
  'holdfast_audit_lost_lines_total',
  'Lines of the audit log that could not be written and are lost',
);
export const AUDIT_SUPPRESSED = METRICS.counter(
  'holdfast_audit_suppressed_events_total',
  'Refusals of callers whom nobody has checked that have no line in the audit log, because there were too many',
);
export const AUDIT_FAILING = METRICS.gauge(
  'holdfast_audit_failing',
  'Whether the audit log takes no lines now (1) or is well, or not asked for (0)',
  { merge: 'max' },
);
export const LOG_DROPPED = METRICS.counter(
  'holdfast_log_lines_dropped_total',
  'Lines of the log that were lost because stderr did not take them',
);
export const TRACE_SPANS_DROPPED = METRICS.counters(
  'holdfast_trace_spans_dropped_total',
  'Spans of traces that were dropped: the queue had no room, the receiver refused them, or the server ended',
  ['reason'],
);
export const EVENT_LOOP_LAG = METRICS.gauge(
  'holdfast_event_loop_lag_seconds',
  'The longest delay of the event loop since the last scrape',
  { merge: 'max' },
);
export const WORKERS = METRICS.gauge('holdfast_workers', 'Processes that serve');
export const WORKER_DEATHS = METRICS.counter(
  'holdfast_worker_deaths_total',
  'Workers that died and were replaced',
);
export const BUILD_INFO = METRICS.gauges(
  'holdfast_build_info',
  'Always 1; the labels say what runs',
  ['version', 'bun'],
  { merge: 'max' },
);

export const OTHER_APP = 'other';

/** The label for a registered App: its own id as long as there is room. */
export class AppLabels {
  readonly #known = new Set<string>();

  labelOf(appId: string): string {
    if (this.#known.has(appId)) return appId;
    if (this.#known.size >= 1000) return OTHER_APP;
    this.#known.add(appId);
    return appId;
  }
}

interface Collected {
  readonly deleted: number;
  readonly reclaimedContentBytes: number;
}

export function noteCollection<T extends Collected>(result: T): T {
  COLLECTED_NODES.add(result.deleted);
  COLLECTED_BYTES.add(result.reclaimedContentBytes);
  GC_LAST_SUCCESS.set(Date.now() / 1000);
  return result;
}
