// The process in which the JavaScript tool modules of one run live.
//
//   node host.mjs FD ROOT
//
// Frames come and go on descriptor FD, never on standard input or output, which belong to the modules:
//
//   4 bytes length of the head, 4 bytes length of the body (big endian), head (JSON), body (JSON text, or nothing)
//
//   to us      {op: "value", handle, exact} + value      a value that later calls name by its handle
//              {op: "drop", handles}              no later call will
//              {op: "call", id, file, shown, lent: {_state: {field: {handle} or {value, exact}}, ...}} + arguments
//              {op: "ping"}
//              {op: "end"}                  print what is still to be printed, and end
//   from us    {op: "ready", node}                once; {op: "old", node} where this Node.js is too old
//              {op: "done", id} + result          {op: "failed", id, text, retryable, result, at, stack}
//                                             (`result`: the rejected result, as text, of a tool that ran)
//              {op: "pong"}
//              {op: "over", text}                 a module has ended the process
//
// Standard input is the life line: when its other end closes, the one who started us is gone, and the whole group
// ends, even in the middle of an endless loop (a worker listens to it).

import { spawnSync } from 'node:child_process'
import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { relative, sep } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { Worker } from 'node:worker_threads'

// Modules may change what is global; what is needed here is taken before.
const { parse, stringify } = JSON
const { defineProperty, entries, keys } = Object
const { isArray } = Array
const OLDEST = 18
const MOST_BYTES = 100_000_000
const DEEPEST = 200

const fd = Number(process.argv[2])
const root = process.argv[3]
const leave = process.reallyExit.bind(process)
const socket = new Socket({ fd, readable: true, writable: true })

// --- frames ---------------------------------------------------------------------------------------

function frame (head, body) {
  const headBytes = Buffer.from(stringify(head))
  const bodyBytes = body === undefined ? Buffer.alloc(0) : Buffer.isBuffer(body) ? body : Buffer.from(body)
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(headBytes.length, 0)
  lengths.writeUInt32BE(bodyBytes.length, 4)
  return Buffer.concat([lengths, headBytes, bodyBytes])
}

function send (head, body) {
  socket.write(frame(head, body))
}

let parts = []
let have = 0
let need = 8
let lengths = null

socket.on('data', (chunk) => {
  parts.push(chunk)
  have += chunk.length
  while (have >= need) {
    const all = parts.length === 1 ? parts[0] : Buffer.concat(parts)
    const taken = all.subarray(0, need)
    const rest = all.subarray(need)
    parts = rest.length ? [rest] : []
    have = rest.length
    if (lengths === null) {
      lengths = [taken.readUInt32BE(0), taken.readUInt32BE(4)]
      need = lengths[0] + lengths[1]
    } else {
      const [headLength] = lengths
      lengths = null
      need = 8
      receive(parse(taken.toString('utf8', 0, headLength)), taken.subarray(headLength))
    }
  }
})
socket.on('error', () => leave(1))
socket.on('close', () => leave(0))

const values = new Map()

function receive (head, body) {
  switch (head.op) {
    case 'value':
      values.set(head.handle, { text: body.toString('utf8'), exact: head.exact })
      break
    case 'drop':
      for (const handle of head.handles) values.delete(handle)
      break
    case 'call':
      call(head, body)
      break
    case 'ping':
      send({ op: 'pong' })
      break
    case 'end':
      end()
  }
}

// --- calls ----------------------------------------------------------------------------------------

async function call ({ id, file, shown, lent }, body) {
  let text
  try {
    const args = parse(body.toString('utf8'))
    for (const [name, fields] of entries(lent)) define(args, name, lazy(fields, name, shown))
    const tool = await loaded(file, shown)
    const result = await tool(args)
    text = kept(result, shown)
  } catch (error) {
    send({ op: 'failed', id, ...told(error, shown) })
    return
  }
  send({ op: 'done', id }, text)
}

class Refused extends Error {}

// The tool ran: what goes wrong from here on is the fault of its result, which is shown.
function kept (result, shown) {
  try {
    return written(result, shown)
  } catch (error) {
    const failure = error instanceof Refused ? error : new Refused(`${place(error) ?? shown}: ${said(error)}`)
    failure.result = sketch(result)
    throw failure
  }
}

function sketch (value) {
  try {
    return inspect(value, { depth: 6, maxArrayLength: 50, maxStringLength: 500, breakLength: Infinity }).slice(0, 2000)
  } catch {
    return 'a value that cannot be shown'
  }
}

async function loaded (file, shown) {
  let module
  try {
    module = await import(pathToFileURL(file).href)
  } catch (error) {
    throw imported(error, file, shown)
  }
  if (!('default' in module)) {
    const has = keys(module).join(', ')
    throw refused(`it has no default export${has && ` (it exports ${has})`}; write ` +
      '`export default async function (args) { … }`', shown)
  }
  if (typeof module.default !== 'function') {
    throw refused(`its default export is ${kind(module.default)}, not a function`, shown)
  }
  return module.default
}

function imported (error, file, shown) {
  const at = place(error) ?? shown
  if (!(error instanceof SyntaxError)) return refused(`importing it failed: ${said(error)}`, at)
  // In which line a syntax error stands, Node.js tells only when it prints it.
  const printed = spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: 5000 })
  const line = /:(\d+)\n/.exec(printed.stderr ?? '')
  const hint = file.endsWith('.js') && /\b(export|import)\b/.test(error.message)
    ? '; for import and export name it .mjs, or put {"type": "module"} into package.json'
    : ''
  return refused(`${said(error)}${hint}`, line ? `${shown}:${line[1]}` : at)
}

function refused (text, at) {
  const error = new Refused(`${at}: ${text}`)
  error.retryable = false
  return error
}

// The values of a call that everybody shares: each field is read from its text when it is first reached, so that
// it costs nothing before, and changing it changes nothing for anybody else.
function lazy (fields, name, shown) {
  const made = {}
  for (const [field, lent] of entries(fields)) {
    const { text, value: given, exact } = 'value' in lent ? lent : values.get(lent.handle)
    if ('value' in lent && exact) {
      define(made, field, given)
      continue
    }
    defineProperty(made, field, {
      configurable: true,
      enumerable: true,
      get () {
        if (!exact) throw refused(`${name}.${field} contains an integer beyond 2^53, which JavaScript would round; keep it as text`, shown)
        const value = parse(text)
        define(made, field, value)
        return value
      },
      set (value) { define(made, field, value) }
    })
  }
  // console.log would show "[Getter/Setter]".
  defineProperty(made, inspect.custom, { value: () => ({ ...made }), configurable: true, writable: true })
  return made
}

function define (object, name, value) {
  defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true })
}

// --- results --------------------------------------------------------------------------------------

function written (result, shown) {
  if (result === undefined) throw new Refused(`${shown}: gave undefined, not an object with state_delta`)
  const wrong = complaint(result, 'result', [], false)
  if (wrong !== null) throw new Refused(`${shown}: ${wrong}`)
  const text = Buffer.from(stringify(result))
  if (text.length > MOST_BYTES) {
    throw new Refused(`${shown}: its result is ${text.length} bytes long; at most ${MOST_BYTES} are taken`)
  }
  return text
}

// The first thing that is not JSON, or null. As in JSON.stringify, `toJSON` is asked and a property that is undefined
// is left out (`lenient`); except where it is written to the state: leaving it out there would lose a write.
function complaint (value, at, outer, lenient) {
  if (value !== null && typeof value === 'object' && typeof value.toJSON === 'function') value = value.toJSON()
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return null
  if (typeof value === 'number') return Number.isFinite(value) ? null : `${at} is ${value}, which is not JSON; use null`
  if (value === undefined) return lenient ? null : `${at} is undefined, which is not JSON; use null`
  if (typeof value !== 'object') return `${at} is ${kind(value)}, which is not JSON`
  if (outer.includes(value)) return `${at} contains itself, which is not JSON`
  if (outer.length >= DEEPEST) return `${at} is nested deeper than ${DEEPEST}`
  if (!isArray(value) && !plain(value)) return `${at} is ${kind(value)}, which is not JSON`
  outer.push(value)
  let wrong = null
  if (isArray(value)) {
    for (let i = 0; i < value.length && wrong === null; i++) wrong = complaint(value[i], `${at}[${i}]`, outer, false)
  } else {
    const left = at !== 'result.state_delta'
    for (const key of keys(value)) {
      wrong = complaint(value[key], `${at}.${key}`, outer, left)
      if (wrong !== null) break
    }
  }
  outer.pop()
  return wrong
}

// Maps, sets, errors and the like are written as {} by JSON.stringify: what is in them would be lost.
function plain (value) {
  return Object.prototype.toString.call(value) === '[object Object]'
}

function kind (value) {
  switch (typeof value) {
    case 'function': return value.name ? `the function ${value.name}` : 'a function'
    case 'bigint': return `a BigInt (${value})`
    case 'symbol': return 'a symbol'
    case 'object': return value === null ? 'null' : a(value.constructor?.name ?? 'object')
    default: return a(typeof value)
  }
}

// A Uint8Array is spoken with a y.
const a = (noun) => `${/^(?!U)[aeiou]/i.test(noun) ? 'an' : 'a'} ${noun}`

// --- failures -------------------------------------------------------------------------------------

// What to tell of something thrown; whatever it is, telling it does not throw.
function told (error, shown) {
  try {
    const text = error instanceof Refused ? error.message : `${place(error) ?? shown}: ${said(error)}`
    const result = error instanceof Refused ? error.result : undefined
    const stack = error instanceof Refused ? undefined : trace(error)
    return { text: text.slice(0, 20_000), retryable: error?.retryable !== false, result, at: place(error, true), stack }
  } catch {
    return { text: `${shown}: it threw what cannot be shown`, retryable: true }
  }
}

function said (error, depth = 0) {
  if (!(error instanceof Error)) return `it threw ${inspect(error, { depth: 2, breakLength: Infinity })}, which is no Error`
  const text = error.message ? `${error.name}: ${error.message}` : error.name
  const inner = error.cause !== undefined && depth < 5 ? `; the cause: ${said(error.cause, depth + 1)}` : ''
  return text + inner
}

const FRAME = /^ +at (?:(?:async )?(.+?) \()?(?:async )?(file:\/\/\/.*|\/.*?):(\d+):(\d+)\)?$/

// `tools/x.mjs:3:9`: the last place in the directory's own code that an error came through; with the function if `named`.
function place (error, named = false) {
  const stack = error instanceof Error && typeof error.stack === 'string' ? error.stack : ''
  for (const line of stack.split('\n')) {
    const found = FRAME.exec(line)
    if (found === null) continue
    const file = found[2].startsWith('file:') ? fileURLToPath(found[2]) : found[2]
    if (!file.startsWith(root + sep)) continue
    return `${relative(root, file)}:${found[3]}:${found[4]}${named && found[1] ? ` in ${found[1]}` : ''}`
  }
  return null
}

// The stack with its causes; frames of this file and of Node.js are one line.
function trace (error) {
  if (!(error instanceof Error)) return undefined
  const lines = []
  let folded = 0
  const fold = () => {
    if (folded) lines.push(`    … ${folded} frame${folded > 1 ? 's' : ''} of Ropewalk and Node.js`)
    folded = 0
  }
  for (const line of inspect(error, { depth: 4 }).slice(0, 100_000).split('\n')) {
    if (/^ +at /.test(line) && (line.includes(import.meta.url) || /[( ]node:/.test(line))) {
      folded++
      continue
    }
    fold()
    lines.push(line.replaceAll(pathToFileURL(root).href + '/', '').replaceAll(root + sep, ''))
  }
  fold()
  return lines.join('\n')
}

// --- the end --------------------------------------------------------------------------------------

// A module has ended the process: tell it, if that can be done without breaking into another frame, and go.
function over (text, code) {
  if (socket.writableLength === 0) {
    try {
      writeSync(fd, frame({ op: 'over', text }))
    } catch { /* nobody listens */ }
  }
  leave(code)
}

// The run is over: output that waits is written first.
async function end () {
  for (const stream of [process.stdout, process.stderr]) {
    if (stream.writableLength > 0) await new Promise((resolve) => stream.write('', resolve))
  }
  leave(0)
}

process.exit = (code) => {
  const at = place(new Error('exit'))
  over(`process.exit(${code ?? ''}) was called${at ? ` at ${at}` : ''}`, Number(code ?? process.exitCode ?? 0))
}
process.on('uncaughtException', (error, origin) => {
  const at = place(error)
  const what = origin === 'unhandledRejection' ? 'a rejected promise was not handled' : 'an error was not caught'
  console.error(error)
  over(`${what}${at ? ` at ${at}` : ''}: ${said(error)}`, 1)
})

const LIFE_LINE = `
const { Socket } = require('node:net')
const end = () => process.kill(-process.pid, 'SIGKILL')
new Socket({ fd: 0 }).on('end', end).on('error', end).on('close', end).resume()
`
new Worker(LIFE_LINE, { eval: true, stdout: false, stderr: false }).unref()
// The life line is ours: modules find an empty standard input.
defineProperty(process, 'stdin', { configurable: true, enumerable: true, get: () => Readable.from([]) })

const major = Number(process.versions.node.split('.')[0])
send({ op: major < OLDEST ? 'old' : 'ready', node: process.versions.node })
