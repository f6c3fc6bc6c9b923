/*
 * A parent that names a child, and the epoch of a bucket: clients publish both, roots come and go, a collection takes one after the
 * other, the sweep drops what waits for too long, servers start and move the epoch on, and an operator puts older rows in the place of
 * the right ones for a while. Each atomic block is a transaction of rows, or one request to the store of bytes. MUTANT in the environment
 * leaves out one rule: each must be noticed.
 */
c_code { #include <stdlib.h> }

#define KEYS 3
#define NONE 9
#define TICKS 2

#define ABSENT 0
#define WAITING 1
#define READY 2
#define CLAIMED 3

byte M;
byte others;

/* rows */
typedef Rows {
  byte child;
  byte key;
  byte refs;
  byte parent;
  bool rooted;
  byte epoch
};
Rows rows;
Rows old;
Rows right;
bool childLeased;
bool parentLeased;
byte tomb[KEYS];

/* the store of bytes */
bool object[KEYS];
byte fresh;
byte epoch;

byte tick;
bool isOld;
bool isUp;
bool isSending;

#define HAS_EDGE (rows.parent != ABSENT)

inline copyRows(to, from) {
  to.child = from.child; to.key = from.key; to.refs = from.refs; to.parent = from.parent; to.rooted = from.rooted; to.epoch = from.epoch
}

/* A child that comes takes the edges that waited for it. */
proctype Client() {
  byte round, sent;
  do
  :: round == 2 -> break
  :: else ->
    round++;
    sent = NONE;
    atomic {
      if
      :: isUp && rows.child == READY -> childLeased = true
      :: isUp && rows.child == CLAIMED && M == 33 -> childLeased = true; rows.child = READY
      :: isUp && rows.child != READY && !(rows.child == CLAIMED && M == 33) && fresh < KEYS -> sent = fresh; fresh++; isSending = true
      :: else -> skip
      fi
    }
    if
    :: sent == NONE -> skip
    :: else ->
      atomic { object[sent] = true }
      atomic {
        if
        :: isUp && rows.child != READY ->
          if
          :: rows.child == ABSENT && M != 34 -> rows.refs = (HAS_EDGE -> 1 : 0)
          :: rows.child == ABSENT && M == 34 -> rows.refs = 0
          :: else -> skip
          fi;
          rows.child = READY; rows.key = sent; childLeased = true
        :: else -> skip
        fi;
        isSending = false
      }
    fi;
    atomic {
      if
      :: isUp && rows.parent == ABSENT ->
        if
        :: rows.child == ABSENT -> rows.parent = (M == 35 -> READY : WAITING)
        :: rows.child == CLAIMED -> rows.parent = (M == 36 -> READY : WAITING); rows.refs = 1
        :: rows.child == READY -> rows.parent = READY; rows.refs = (M == 31 -> 0 : 1)
        fi;
        parentLeased = true
      :: isUp && (rows.parent == WAITING || rows.parent == CLAIMED) ->
        if
        :: rows.child == READY -> rows.parent = READY; parentLeased = true
        :: else -> parentLeased = true; rows.parent = WAITING
        fi
      :: else -> skip
      fi
    }
  od
}

proctype Commit() {
  byte round;
  do
  :: round == 2 -> break
  :: round < 2 ->
    round++;
    if
    :: atomic { isUp && (rows.parent == READY || (M == 37 && rows.parent == WAITING)) -> rows.rooted = true }
    :: atomic { isUp && rows.rooted -> rows.rooted = false }
    :: skip
    fi
  od
}

inline forgetParent() {
  rows.parent = ABSENT; parentLeased = false;
  if
  :: rows.child != ABSENT && rows.refs > 0 -> rows.refs--
  :: else -> skip
  fi
}

proctype Collect() {
  byte round, k;
  bool isTaken;
  do
  :: round == 3 -> break
  :: round < 3 ->
    round++;
    if
    :: atomic { isUp && rows.parent == READY && !parentLeased && !rows.rooted -> rows.parent = CLAIMED; isTaken = true }
       if
       :: M == 32 -> atomic { if :: rows.child != ABSENT && rows.refs > 0 -> rows.refs-- :: else -> skip fi }
       :: else -> skip
       fi;
       atomic {
         if
         :: isUp && (rows.parent == CLAIMED || (M == 38 && rows.parent != ABSENT)) ->
           if :: M == 32 -> rows.parent = ABSENT; parentLeased = false :: else -> forgetParent() fi
         :: else -> skip
         fi
       }
    :: atomic { isUp && rows.child == READY && !childLeased && (rows.refs == 0 || M == 39) -> rows.child = CLAIMED; k = rows.key }
       atomic { if :: isUp -> object[k] = false; isTaken = true :: else -> isTaken = false fi }
       atomic {
         if
         :: isUp && isTaken && rows.child == CLAIMED && rows.key == k -> rows.child = ABSENT; rows.key = NONE; rows.refs = 0; childLeased = false
         :: else -> skip
         fi
       }
    :: atomic { isUp && rows.parent == WAITING && !parentLeased -> forgetParent() }
    :: skip
    fi
  od
}

/* What no row knows for a while is a stray. */
inline walkOne(k) {
  atomic {
    isUp && object[k] && !(rows.child != ABSENT && rows.key == k) ->
    if
    :: tomb[k] == 0 -> tomb[k] = tick + 1
    :: tomb[k] != 0 && tomb[k] <= tick -> object[k] = false
    :: else -> skip
    fi
  }
}

proctype Walk() {
  byte round;
  do
  :: round == 3 -> break
  :: round < 3 ->
    round++;
    if
    :: walkOne(0)
    :: walkOne(1)
    :: walkOne(2)
    :: skip
    fi
  od
}

/* A server at its start, and every so often: both are past what either has seen. */
proctype Move() {
  byte round, next;
  do
  :: round == 2 -> break
  :: round < 2 ->
    round++;
    if
    :: atomic { isUp && epoch < 3 -> next = (rows.epoch > epoch -> rows.epoch : epoch) + 1 }
       if
       :: M == 40 -> atomic { if :: isUp -> epoch = next :: else -> next = 0 fi }
       :: else -> skip
       fi;
       atomic {
         if
         :: isUp && next > 0 && (rows.epoch < next || M == 41) -> rows.epoch = next
         :: isUp && next > 0 && rows.epoch >= next && M != 41 -> skip
         :: else -> next = 0
         fi
       }
       if
       :: M == 40 || next == 0 -> skip
       :: else -> atomic { if :: isUp -> epoch = (epoch > next -> epoch : next) :: else -> skip fi }
       fi
    :: skip -> break
    fi
  od
}

proctype Time() {
  byte round;
  do
  :: round == 4 -> break
  :: round < 4 ->
    round++;
    if
    /* Servers that run move the epoch on at least as often, and an upload has ended long before. */
    :: atomic { tick < TICKS && !isSending && (!isUp || epoch > tick) -> tick++ }
    :: atomic { childLeased -> childLeased = false }
    :: atomic { parentLeased -> parentLeased = false }
    :: skip
    fi
  od
}

/* Older rows come in the place of the right ones. A server does not start on rows that are behind their bucket. */
proctype Operator() {
  if
  :: atomic { isUp -> copyRows(old, rows) }
  :: skip -> goto over
  fi;
  if
  :: atomic { isUp && old.epoch < epoch -> isUp = false; copyRows(right, rows); copyRows(rows, old); isOld = true; childLeased = false; parentLeased = false }
  :: skip -> goto over
  fi;
  atomic { isUp = (rows.epoch >= epoch || M == 42) }
  atomic { copyRows(rows, right); isOld = false; isUp = (rows.epoch >= epoch) }
over:
  skip
}

/* A server that stops and starts on its own rows is not refused. */
proctype Restart() {
  if
  :: atomic { isUp && !isOld -> isUp = false; if :: rows.epoch < epoch -> assert(false) :: else -> isUp = true fi }
  :: skip
  fi
}

active proctype Monitor() {
end:
  if
  :: atomic { !isOld && rows.child == READY && !object[rows.key] -> assert(false) }
  :: atomic { !isOld && rows.parent == READY && rows.child != READY -> assert(false) }
  :: atomic { !isOld && (parentLeased || rows.rooted) && (rows.parent == ABSENT || rows.parent == CLAIMED) -> assert(false) }
  :: atomic { !isOld && rows.rooted && rows.parent != READY -> assert(false) }
  fi
}

init {
  atomic {
    c_code {
      const char *m = getenv("MUTANT"), *o = getenv("OTHERS");
      now.M = m ? atoi(m) : 0;
      now.others = o ? atoi(o) : 127;
    };
    rows.key = NONE; isUp = true;
    run Client();
    if :: others & 1 -> run Commit() :: else -> skip fi;
    if :: others & 2 -> run Collect() :: else -> skip fi;
    if :: others & 4 -> run Walk() :: else -> skip fi;
    if :: others & 8 -> run Move() :: else -> skip fi;
    if :: others & 16 -> run Time() :: else -> skip fi;
    if :: others & 32 -> run Operator() :: else -> skip fi;
    if :: others & 64 -> run Restart(); run Move() :: else -> skip fi
  }
}
