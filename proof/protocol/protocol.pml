/*
 * Rows at one time, objects at another: one node whose bytes move from key to key, while clients upload, a collection, the packing, the
 * sweep and the walk over strays delete, time passes, and the rows are restored to an earlier instant. Each atomic block is a transaction
 * of rows, or one request to the store of bytes. MUTANT in the environment leaves out one rule: each must be noticed.
 */
c_code { #include <stdlib.h> }

#define KEYS 4
#define NONE 9
#define TICKS 2

#define ABSENT 0
#define READY 1
#define CLAIMED 2
#define ROTTEN 3

/* why an object is to be deleted: at once; when its URL has ended; when what replaced it is a day old */
#define NOW 1
#define AFTER_URL 2
#define AFTER_DAY 3

byte M;

/* rows */
byte state = ABSENT;
byte key = NONE;
bool leased;
bool rooted;
byte upload = NONE;
byte discard[KEYS];
byte due[KEYS];
byte tomb[KEYS];
/* rows of a backup, or of the instant that a recovery goes back to */
bool taken;
bool oldLeased;
bool oldRooted;
byte oldState;
byte oldKey;
byte oldUpload;
byte oldDiscard[KEYS];
byte oldDue[KEYS];
byte oldTomb[KEYS];
byte takenAt;

/* the store of bytes, and its URLs */
bool object[KEYS];
bool url[KEYS];
bool stray[KEYS];
byte fresh;
byte sent = NONE;

byte tick;
bool collected;
/* what a collection took between the backup and the restore: it was free, and a delete of it may still land */
byte excused = NONE;
bool restored;
bool packing;
byte ended;
byte workers;
byte others;

/* a PUT of that key may still begin or land */
#define LIVE(k) (url[k] || sent == k)
#define NAMED(k) ((state != ABSENT && key == k) || upload == k)
#define KNOWN(k) ((state != ABSENT && key == k) || (upload == k && M != 26) || discard[k] != 0)
#define MAY_DISCARD(k) (discard[k] != 0 && !NAMED(k) && (discard[k] == NOW || (discard[k] == AFTER_URL && (!LIVE(k) || M == 22)) || (discard[k] == AFTER_DAY && (due[k] <= tick || M == 18))))

inline close(k) {
  if
  :: M == 1 -> skip
  :: else -> discard[k] = NOW
  fi
}

/* A client leases, and leases again once it has sent the bytes. */
proctype Client() {
  byte round, seen;
  bool found;
  do
  :: round == 2 -> break
  :: else ->
    round++;
    seen = NONE;
    atomic {
      if
      :: state == READY || (state == CLAIMED && M == 3) -> leased = true; state = READY
      :: state == ROTTEN && M == 4 -> leased = true; state = READY
      :: else ->
        if
        :: upload == NONE && fresh < KEYS -> upload = fresh; url[fresh] = true; fresh++
        :: upload != NONE && !url[upload] && fresh < KEYS && !object[upload] ->
          if :: M == 5 -> skip :: else -> discard[upload] = AFTER_URL fi;
          upload = fresh; url[fresh] = true; fresh++
        :: else -> skip
        fi;
        seen = upload
      fi
    }
    if
    :: seen == NONE -> skip
    :: else ->
      atomic { found = object[seen] || M == 6 }
      atomic {
        if
        :: found && upload != NONE && (upload == seen || M == 7) && state != READY ->
          if
          :: state == ABSENT || M == 8 -> skip
          :: else -> close(key)
          fi;
          state = READY;
          key = upload;
          if :: M == 9 -> skip :: else -> upload = NONE fi;
          leased = true;
          discard[key] = 0
        :: else -> skip
        fi
      }
    fi
  od;
  ended++
}

/* The store takes a PUT once for each key, while nothing stands there; it began while its URL was good. */
proctype Put() {
  byte round, k;
  do
  :: round == 2 -> break
  :: round < 2 ->
    round++;
    if
    :: atomic { fresh > 0 && (url[0] || M == 2) -> sent = 0 }
    :: atomic { fresh > 1 && (url[1] || M == 2) -> sent = 1 }
    :: atomic { fresh > 2 && (url[2] || M == 2) -> sent = 2 }
    :: atomic { fresh > 3 && (url[3] || M == 2) -> sent = 3 }
    :: ended >= workers - 2 -> break
    fi;
    atomic { object[sent] = true; sent = NONE }
  :: break
  od;
  ended++
}

proctype Commit() {
  byte round;
  do
  :: round == 2 -> break
  :: round < 2 ->
    round++;
    if
    :: atomic { state == READY -> rooted = true }
    :: atomic { state == CLAIMED && M == 10 -> rooted = true; state = READY }
    :: atomic { rooted -> rooted = false }
    :: skip
    fi
  od;
  ended++
}

proctype Collect() {
  byte k;
  bool good;
  if
  :: atomic {
      M != 11 && state == READY && (!leased || M == 12) && (!rooted || M == 13) ->
      state = CLAIMED; k = key; good = LIVE(k); collected = true
    }
  :: atomic { M == 11 && state == READY && !leased && !rooted -> k = key; good = LIVE(k); collected = true }
  :: atomic { state == CLAIMED -> k = key; good = LIVE(k) }
  :: skip -> goto over
  fi;
  if :: skip :: goto over fi;
  atomic { object[k] = false }
  atomic {
    if
    :: (state == CLAIMED || M == 14 || M == 11) && (key == k || M == 15) && state != ABSENT ->
      if
      :: M == 16 -> skip
      :: M == 17 -> if :: LIVE(k) -> discard[k] = AFTER_URL :: else -> skip fi
      :: else -> if :: good -> discard[k] = AFTER_URL :: else -> skip fi
      fi;
      state = ABSENT; key = NONE; leased = false; rooted = false
    :: else -> skip
    fi
  }
over:
  ended++
}

/* Packing, compaction: the same bytes under another key. */
proctype Pack() {
  byte from, to;
  if
  :: atomic { state == READY && fresh < KEYS && object[key] -> from = key; to = fresh; fresh++; packing = true }
  :: skip -> goto over
  fi;
  if
  :: M == 19 -> atomic { object[from] = false }
  :: else -> skip
  fi;
  if
  :: M == 21 -> skip
  :: else -> atomic { object[to] = true }
  fi;
  atomic {
    if
    :: (state == READY || (M == 23 && state != ABSENT)) && (key == from || M == 24) ->
      if
      :: M == 25 -> skip
      :: else -> discard[key] = AFTER_DAY; due[key] = tick + 1
      fi;
      key = to
    :: else -> stray[to] = true
    fi
  }
  if
  :: M == 21 -> atomic { object[to] = true }
  :: else -> skip
  fi;
  packing = false;
over:
  ended++
}

inline sweepOne(k) {
  atomic { MAY_DISCARD(k) -> good = LIVE(k); which = k }
}

proctype Sweep() {
  byte round, which;
  bool good;
  do
  :: round == 2 -> break
  :: round < 2 ->
    round++;
    which = NONE;
    if
    :: sweepOne(0)
    :: sweepOne(1)
    :: sweepOne(2)
    :: sweepOne(3)
    :: skip
    fi;
    if
    :: which == NONE -> skip
    :: else ->
      if
      :: M == 27 -> atomic { discard[which] = 0 }
      :: else -> skip
      fi;
      if :: skip :: goto over fi;
      atomic {
        /* A restore may have come between: then the rows name it again. */
        if
        :: restored && NAMED(which) -> which = NONE
        :: else -> object[which] = false
        fi
      }
      if
      :: which != NONE -> atomic {
          if
          :: good && M != 28 -> discard[which] = AFTER_URL
          :: else -> discard[which] = 0
          fi
        }
      :: else -> skip
      fi
    fi
  od;
over:
  ended++
}

inline walkOne(k) {
  atomic {
    object[k] && !KNOWN(k) ->
    if
    :: tomb[k] == 0 && M != 29 -> tomb[k] = tick + 1
    :: tomb[k] == 0 && M == 29 -> object[k] = false
    :: tomb[k] != 0 && tomb[k] <= tick -> object[k] = false
    :: else -> skip
    fi
  }
}

/* The walk over all objects: what no row knows gets a tombstone, and goes if it is not known a week later. */
proctype Walk() {
  byte round;
  do
  :: round == 2 -> break
  :: round < 2 ->
    round++;
    if
    :: walkOne(0)
    :: walkOne(1)
    :: walkOne(2)
    :: walkOne(3)
    :: atomic { M == 30 && tomb[0] != 0 && tomb[0] <= tick -> object[0] = false }
    :: atomic { M == 30 && tomb[1] != 0 && tomb[1] <= tick -> object[1] = false }
    :: atomic { M == 30 && tomb[2] != 0 && tomb[2] <= tick -> object[2] = false }
    :: skip
    fi
  od;
  ended++
}

/* A day passes only when no PUT and no packing is under way: both have ended long before. */
proctype Time() {
  byte round;
  do
  :: round == 4 -> break
  :: round < 4 ->
    round++;
    if
    :: atomic { tick < TICKS && sent == NONE && !packing -> tick++ }
    :: atomic { leased -> leased = false }
    :: atomic { url[0] -> url[0] = false }
    :: atomic { url[1] -> url[1] = false }
    :: atomic { url[2] -> url[2] = false }
    :: skip
    fi
  od;
  ended++
}

/* A backup of the rows, and the rows restored from it within the day that what was replaced is kept. */
proctype Restore() {
  byte k;
  if
  :: atomic {
      state != ABSENT ->
      taken = true; takenAt = tick; collected = false;
      oldState = state; oldKey = key; oldLeased = leased; oldRooted = rooted; oldUpload = upload;
      for (k : 0 .. KEYS - 1) { oldDiscard[k] = discard[k]; oldDue[k] = due[k]; oldTomb[k] = tomb[k] }
    }
  :: skip -> goto over
  fi;
  if
  :: atomic {
      takenAt == tick && !packing && oldState == READY ->
      state = oldState; key = oldKey; leased = oldLeased; rooted = oldRooted; upload = oldUpload;
      for (k : 0 .. KEYS - 1) { discard[k] = oldDiscard[k]; due[k] = oldDue[k]; tomb[k] = oldTomb[k] }
      restored = true;
      if :: collected -> excused = key :: else -> skip fi;
      /* What was collected since is lost by right: it was free then. */
      if
      :: !object[key] && collected -> state = ROTTEN
      :: else -> skip
      fi
    }
  :: skip
  fi;
over:
  ended++
}

/* No ready node is without its bytes, and none that is leased or rooted is taken. */
active proctype Monitor() {
end:
  if
  :: atomic { (leased || rooted) && (state == ABSENT || state == CLAIMED) -> assert(false) }
  :: atomic { state == READY && !object[key] && key != excused -> assert(false) }
  fi
}

/* Once all is done and time has passed, nothing stays that no row knows, except what a walk over strays is for. */
proctype Last() {
  byte k;
  atomic {
    ended == workers ->
    for (k : 0 .. KEYS - 1) {
      if
      :: discard[k] != 0 && !NAMED(k) -> object[k] = false
      :: else -> skip
      fi;
      assert(restored || stray[k] || !object[k] || NAMED(k))
    }
  }
}

/* OTHERS: which of the processes run beside the client and its PUTs, a bit each. */
init {
  atomic {
    c_code {
      const char *m = getenv("MUTANT"), *o = getenv("OTHERS");
      now.M = m ? atoi(m) : 0;
      now.others = o ? atoi(o) : 127;
    };
    workers = 2 + (others & 1) + ((others >> 1) & 1) + ((others >> 2) & 1) + ((others >> 3) & 1) + ((others >> 4) & 1) + ((others >> 5) & 1) + ((others >> 6) & 1);
    run Client(); run Put(); run Last();
    if :: others & 1 -> run Commit() :: else -> skip fi;
    if :: others & 2 -> run Collect() :: else -> skip fi;
    if :: others & 4 -> run Pack() :: else -> skip fi;
    if :: others & 8 -> run Sweep() :: else -> skip fi;
    if :: others & 16 -> run Walk() :: else -> skip fi;
    if :: others & 32 -> run Time() :: else -> skip fi;
    if :: others & 64 -> run Restore() :: else -> skip fi
  }
}
