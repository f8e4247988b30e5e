"""Make src/ropewalk/select/words.npz: word vectors and nearest words out of all-MiniLM-L6-v2.

    python bench/select_words.py TOKENIZER.json MODEL.onnx [OUT.npz]

The model (sentence-transformers/all-MiniLM-L6-v2, Apache-2.0) as ONNX and its tokenizer are given by path; needs
`onnxruntime`. Each word piece goes through the model by itself; what comes out is centred, reduced to 128 numbers by
its principal components, brought to one length and rounded to int8. Only pieces of latin letters are kept, whole words
first, in the order of the tokenizer's vocabulary, which is by frequency. No tool or query has any part in it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import Stemmer

SIZE, NEIGHBOURS, LEAST = 128, 8, 0.5

# Words of software and of everyday requests that the tokenizer has only in pieces.
MORE = """
delete deletes deleting deleted upload uploading uploads download downloading downloads downloadable url urls api
apis json csv xml yaml html css sql pdf docx xlsx zip png jpeg svg webhook webhooks login logout logon signup username
usernames timestamp timestamps timezone datetime endpoint endpoints config configs configure configuration repo repos
repository repositories commit commits merge merges rebase changelog issue issues todo todos checklist reminder
reminders spreadsheet spreadsheets workflow workflows workspace workspaces dashboard dashboards backup backups
firewall subnet hostname dns ssh ftp smtp oauth token tokens auth authenticate authenticated authorization authorize
validate validator validation encrypt encryption decrypt decryption decode encode encoder encoding compress
decompress parse parser parsing scrape scraper scraping crawler crawl screenshot screenshots thumbnail thumbnails
resize crop ocr transcribe transcription transcript translate translator translation summarise summarize summarizer
summarization paraphrase rewrite proofread grammar plagiarism chatbot chatbots llm prompt prompts embed embedding
embeddings cluster clustering classifier classify regression dataset datasets dataframe analytics analyze analyse
analyzer visualize visualise visualization histogram chart charts plot plots heatmap kpi crm erp saas invoice invoices
invoicing payroll payslip refund refunds checkout coupon coupons voucher vouchers discount discounts cashback cart
crypto cryptocurrency bitcoin ethereum blockchain nft nfts wallet wallets forex stock stocks ticker portfolio
portfolios dividend dividends mortgage mortgages refinance loan loans budgeting subscription subscriptions
unsubscribe newsletter newsletters seo keyword keywords hashtag hashtags influencer tweet tweets retweet podcast
podcasts playlist playlists lyrics soundtrack subtitle subtitles remix youtube instagram facebook twitter linkedin
whatsapp telegram slack github gitlab jira trello notion airbnb uber spotify netflix wikipedia google amazon ebay
itinerary itineraries booking bookings reservation reservations flight flights airfare hotel hotels hostel rental
rentals carpool rideshare parking commute geocode geocoding geolocation latitude longitude elevation directions gps
weather forecast forecasts humidity uv pollen aqi horoscope horoscopes zodiac tarot astrology numerology recipe
recipes calorie calories nutrition nutrient nutrients vegan vegetarian gluten workout workouts fitness yoga meditation
mindfulness bmi symptom symptoms diagnose diagnosis prescription prescriptions dosage vaccine vaccines appointment
appointments reschedule scheduler scheduling calendar calendars resume resumes resumé cv recruiter recruiting
freelancer freelance internship internships quiz quizzes flashcard flashcards tutor tutoring homework worksheet
worksheets essay essays citation citations bibliography emoji emojis gif gifs meme memes avatar avatars wallpaper
sudoku crossword trivia riddle puzzle puzzles dice yoyo sort sorting sorted filter filtering rename renaming append
concatenate regex substring lowercase uppercase uuid hash hashing checksum random randomize shuffle factorial
fibonacci permutation permutations quadratic polynomial derivative derivatives integral integrals matrix matrices
transpose eigenvalue determinant hypotenuse trigonometry arithmetic multiply multiplication subtract subtraction
divide percentage percentages median variance deviation correlation probability rounding kilometers kilograms
fahrenheit celsius currency currencies converter converters conversion"""


def model_vectors(model: str, rows: list[list[int]]) -> np.ndarray:
    """What the model makes of each word alone; `rows` are the pieces of each."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    out = np.zeros((len(rows), 384), np.float32)
    for length in sorted({len(row) for row in rows}):
        same = [n for n, row in enumerate(rows) if len(row) == length]
        for start in range(0, len(same), 512):
            block = same[start : start + 512]
            tokens = np.array([[101, *rows[n], 102] for n in block], np.int64)
            names = ("input_ids", "attention_mask", "token_type_ids")
            fed = dict(zip(names, (tokens, np.ones_like(tokens), np.zeros_like(tokens)), strict=True))
            out[block] = session.run(None, fed)[0].mean(1)
    return out


def pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """The pieces of a word, the longest first, as the model's tokenizer cuts it."""
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        end = next(end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
        found.append(vocabulary[mark + word[start:end]])
        start = end
    return found


def nearest(vectors: np.ndarray, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The most similar other words of each, leaving out forms of the same word and of one already there."""
    stem = Stemmer.Stemmer("english").stemWord
    stems = [stem(word) for word in words]
    near = np.zeros((len(words), NEIGHBOURS), np.uint16)
    like = np.zeros((len(words), NEIGHBOURS), np.uint8)
    for start in range(0, len(words), 1024):
        block = vectors[start : start + 1024] @ vectors.T
        for row, sims in enumerate(block, start):
            seen, place = {stems[row]}, 0
            for other in np.argsort(-sims)[:40]:
                if sims[other] < LEAST or place == NEIGHBOURS:
                    break
                if stems[other] not in seen and len(words[other]) > 2:
                    seen.add(stems[other])
                    near[row, place], like[row, place] = other, min(255, round(float(sims[other]) * 255))
                    place += 1
    return near, like


def main(tokenizer: str, model: str, out: str) -> None:
    vocabulary = json.loads(Path(tokenizer).read_text("utf-8"))["model"]["vocab"]
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    whole = [word for word in ordered if re.fullmatch("[a-z]+", word) and len(word) > 1]
    parts = [word for word in ordered if re.fullmatch("##[a-z]+", word)] + [chr(97 + n) for n in range(26)]
    whole += sorted({word for word in MORE.split() if word.isascii()} - set(whole))
    kept = [*whole, *parts]
    raw = model_vectors(model, [[vocabulary[w]] if w in vocabulary else pieces(w, vocabulary) for w in kept])
    raw -= raw.mean(0)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    near, like = nearest(unit[: len(whole)], whole)
    _, _, axes = np.linalg.svd(raw, full_matrices=False)
    small = raw @ axes[:SIZE].T
    small /= np.linalg.norm(small, axis=1, keepdims=True)
    scale = 127 / np.abs(small).max()
    vectors = np.round(small * scale).astype(np.int8)
    text = np.frombuffer("\n".join(kept).encode(), np.uint8)
    np.savez(out, words=text, vectors=vectors, near=near, like=like)
    print(f"{len(whole)} words and {len(parts)} parts, {Path(out).stat().st_size / 1e6:.1f} MB -> {out}")


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "src/ropewalk/select/words.npz"
    main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else str(default))
